#include "lockstep/distributed/data_parallel.h"

#include "lockstep/distributed/agreement.h"
#include "lockstep/tensor/ops/copy.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace lockstep {

DataParallel::DataParallel(Module& module, ProcessGroup& group, DdpOptions options)
    : module_(module), group_(group), options_(std::move(options)) {
  build();
}

DataParallel::~DataParallel() = default;

void DataParallel::build() {
  std::vector<NamedParameter> parameters = module_.named_parameters();
  std::vector<NamedBuffer> buffers = module_.named_buffers();
  leave_out(options_.ignore, parameters, buffers, group_);
  require_same_parameters(parameters, buffers, group_);
  std::vector<NamedParameter> trained, frozen;
  std::vector<ParamSpec> specs;
  for (NamedParameter& named : parameters) {
    if (named.parameter.requires_grad()) {
      specs.push_back({named.name, named.parameter.shape(), named.parameter.dtype()});
      trained.push_back(std::move(named));
    } else {
      frozen.push_back(std::move(named));
    }
  }
  check(!options_.skip_unused_buckets || options_.find_unused_parameters || options_.static_graph,
        "DataParallel: skip_unused_buckets wants find_unused_parameters or static_graph");
  check(!trained.empty(), "DataParallel: the module has no parameter that requires a gradient",
        frozen.empty() ? "" : "; all are frozen: set_requires_grad(true) on those to train");

  std::vector<int> order(specs.size());  // until one is recorded: last parameter first
  std::iota(order.rbegin(), order.rend(), 0);
  BucketPlan plan = make_plan(specs, order);
  // From here on only the group can fail: what was wrapped before is in use until then.
  trained_ = std::move(trained);
  specs_ = std::move(specs);
  move_values(plan);
  for (size_t b = 0; b < plan.buckets.size(); ++b) {
    group_.broadcast(values_.bucket(static_cast<int>(b)), 0)->wait();
  }
  for (const NamedParameter& named : frozen) group_.broadcast(named.parameter.data(), 0)->wait();
  buffers_.emplace(std::move(buffers), group_, options_.buffers_from);
  broadcast_buffers();

  settled_ = !options_.replan || group_.size() == 1;
  ReducerOptions reducing{.mode = options_.mode,
                          .find_unused_parameters = options_.find_unused_parameters,
                          .static_graph = options_.static_graph,
                          .skip_unused_buckets = options_.skip_unused_buckets,
                          .frozen = std::move(frozen),
                          .reduction = options_.reduction,
                          .nonfinite = options_.nonfinite,
                          .timeline = options_.timeline,
                          .at_end = [this] { end_of_step(); }};
  if (options_.broadcast_buffers) reducing.at_begin = [this] { buffers_->start(); };
  const int64_t steps = reducer_ != nullptr ? reducer_->steps() : 0;
  reducer_.reset();  // before the next one takes the gradients' memory
  reducer_ = std::make_unique<Reducer>(trained_, std::move(plan), group_, std::move(reducing));
  reducer_->set_steps(steps);
}

BucketPlan DataParallel::make_plan(const std::vector<ParamSpec>& specs,
                                   const std::vector<int>& arrival_order) const {
  return plan_of_rank_zero(group_, specs, [&] {
    const BucketCaps caps{.first_mb = first_cap_mb(options_),
                          .rest_mb = options_.bucket_cap_mb,
                          .last_mb = options_.last_bucket_cap_mb,
                          .list_mb = options_.bucket_caps_mb};
    return in_mode(plan_in_order(options_.planner ? options_.planner : plan_buckets, specs,
                                 arrival_order, caps),
                   specs);
  });
}

/// In naive mode each gradient is a bucket of its own.
BucketPlan DataParallel::in_mode(BucketPlan plan, const std::vector<ParamSpec>& specs) const {
  if (options_.mode != DdpMode::kNaive) return plan;
  BucketPlan alone;
  for (const Bucket& bucket : plan.buckets) {
    for (int i : bucket.params) {
      alone.buckets.push_back({bucket.dtype, {i}, specs[static_cast<size_t>(i)].bytes()});
    }
  }
  return alone;
}

/// Values lie like gradients, so that an optimizer's pass runs over both at once.
void DataParallel::move_values(const BucketPlan& plan) {
  FlatArena values(specs_, plan, trained_[0].parameter.device());
  for (size_t i = 0; i < trained_.size(); ++i) {
    Tensor slot = values.param(static_cast<int>(i));
    ops::copy(trained_[i].parameter.data(), slot);
    trained_[i].parameter.mutable_data() = slot;
  }
  values_ = std::move(values);
}

void DataParallel::end_of_step() {
  buffers_->finish();
  if (std::exchange(settled_, true)) return;
  const BucketPlan plan = make_plan(specs_, reducer_->arrival_order());
  if (plan != reducer_->plan()) adopt_plan(plan);
}

void DataParallel::adopt_plan(const BucketPlan& plan) {
  check(!reducer_->in_backward(), "DataParallel: adopt_plan() within a backward");
  check_plan(plan, specs_);
  // Rank 0's, so that ranks that were given unlike plans do not add unlike gradients.
  const BucketPlan agreed =
      plan_of_rank_zero(group_, specs_, [&] { return in_mode(plan, specs_); });
  reducer_->adopt(agreed);
  move_values(agreed);
  settled_ = true;
}

void DataParallel::rebuild() {
  check(reducer_->synchronize(), "DataParallel: rebuild() within no_sync()");
  check(!reducer_->in_backward(), "DataParallel: rebuild() within a backward");
  build();
}

void DataParallel::broadcast_buffers() {
  buffers_->start();
  buffers_->finish();
}

}  // namespace lockstep
