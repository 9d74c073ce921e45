#include "lockstep/distributed/data_parallel.h"

#include "lockstep/autograd/record.h"
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
  for (const std::string& name : options_.ignore) {
    const auto named = [&](const auto& entry) { return entry.name == name; };
    check(std::erase_if(parameters, named) + std::erase_if(buffers, named) > 0,
          "DataParallel: ignore: the module has no parameter or buffer ", name);
  }
  require_same_parameters(parameters, group_);
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
  guard_frozen(std::move(frozen));
  buffers_.emplace(std::move(buffers), group_);
  broadcast_buffers();

  settled_ = !options_.replan || group_.size() == 1;
  ReducerOptions reducing{.mode = options_.mode,
                          .find_unused_parameters = options_.find_unused_parameters,
                          .static_graph = options_.static_graph,
                          .skip_unused_buckets = options_.skip_unused_buckets,
                          .reduction = options_.reduction,
                          .timeline = options_.timeline,
                          .at_begin = [this] { begin_of_step(); },
                          .at_end = [this] { end_of_step(); }};
  reducer_.reset();  // before the next one takes the gradients' memory
  reducer_ = std::make_unique<Reducer>(trained_, std::move(plan), group_, std::move(reducing));
}

void DataParallel::guard_frozen(std::vector<NamedParameter> frozen) {
  frozen_ = std::move(frozen);
  frozen_hooks_.clear();
  for (NamedParameter& named : frozen_) {
    frozen_hooks_.push_back(named.parameter.on_grad_ready(
        [this](const Variable&) { at_end_of_backward([this](bool) { refuse_unfrozen(); }); }));
  }
}

void DataParallel::refuse_unfrozen() const {
  for (const auto& [name, parameter] : frozen_) {
    check(!parameter.requires_grad(), "DataParallel: ", name,
          " was frozen when the module was wrapped and wants a gradient now, which nobody would "
          "average; call rebuild() after unfreezing");
  }
}

void DataParallel::begin_of_step() {
  // Here all ranks are at the same place among the collectives, so that all can go on after it.
  refuse_unfrozen();
  if (options_.broadcast_buffers) buffers_->start();
}

BucketPlan DataParallel::make_plan(const std::vector<ParamSpec>& specs,
                                   const std::vector<int>& arrival_order) const {
  return plan_of_rank_zero(group_, specs, [&] {
    const double rest = options_.bucket_cap_mb;
    const BucketCaps caps{.first_mb = options_.first_bucket_cap_mb.value_or(std::min(1.0, rest)),
                          .rest_mb = rest,
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

void DataParallel::adopt_plan(BucketPlan plan) {
  check_plan(plan, specs_);
  plan = in_mode(std::move(plan), specs_);
  settled_ = true;
  move_values(plan);
  reducer_->adopt(std::move(plan));
}

void DataParallel::rebuild() {
  check(reducer_->synchronize(), "DataParallel: rebuild() within no_sync()");
  build();
}

void DataParallel::broadcast_buffers() {
  buffers_->start();
  buffers_->finish();
}

}  // namespace lockstep
