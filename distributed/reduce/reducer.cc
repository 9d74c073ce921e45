#include "lockstep/distributed/reduce/reducer.h"

#include "lockstep/autograd/record.h"
#include "lockstep/base/error.h"
#include "lockstep/distributed/reduce/bucket_label.h"
#include "lockstep/distributed/reduce/missing_gradient.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tensor/ops/reduce.h"

#include <algorithm>
#include <utility>

namespace lockstep {

Reducer::Reducer(std::vector<NamedParameter> parameters, BucketPlan plan, ProcessGroup& group,
                 ReducerOptions options)
    : parameters_(std::move(parameters)),
      group_(group),
      options_(std::move(options)),
      times_(options_.timeline, parameters_.empty() ? Device() : parameters_[0].parameter.device()),
      reached_(parameters_.size()),
      used_(parameters_.size() + options_.frozen.size()) {
  check(!parameters_.empty(), "reducer: no parameter requires a gradient");
  for (const auto& [name, parameter] : parameters_) {
    specs_.push_back({name, parameter.shape(), parameter.dtype()});
  }
  // A hook may keep what it has not sent, so it must know what nobody uses.
  know_unused_early_ = options_.skip_unused_buckets || options_.reduction != nullptr;
  if (options_.reduction == nullptr) {
    options_.reduction = [&group](const GradBucket& b) { return group.all_reduce(b.flat); };
  }
  adopt(std::move(plan));
  const auto listen = [&](NamedParameter& named, size_t i) {
    hooks_.push_back(named.parameter.on_grad_ready([this, i](const Variable&) { on_ready(i); }));
  };
  for (size_t i = 0; i < parameters_.size(); ++i) listen(parameters_[i], i);
  for (NamedParameter& named : options_.frozen) listen(named, parameters_.size());
}

Reducer::~Reducer() {
  abandon();
  hooks_.clear();
  for (NamedParameter& p : parameters_) p.parameter.bind_grad(Tensor());
}

void Reducer::adopt(BucketPlan plan) {
  check(!in_backward_, "reducer: buckets cannot change within a backward");
  check_plan(plan, specs_);
  FlatArena gradients(specs_, plan, parameters_[0].parameter.device());
  for (size_t i = 0; i < parameters_.size(); ++i) {
    Variable& parameter = parameters_[i].parameter;
    const auto before = parameter.grad();
    Tensor slot = gradients.param(static_cast<int>(i));
    if (before) ops::copy(*before, slot);
    parameter.bind_grad(slot);
    if (before) parameter.set_grad_defined(true);
  }
  for (BucketState& bucket : buckets_) {
    bucket.view.flat.retire("a gradient that was obtained before the buckets were planned anew");
  }
  gradients_ = std::move(gradients);
  plan_ = std::move(plan);
  buckets_ = std::vector<BucketState>(plan_.buckets.size());
  bucket_of_.resize(parameters_.size());
  for (size_t b = 0; b < buckets_.size(); ++b) {
    GradBucket& view = buckets_[b].view;
    view.index = static_cast<int>(b);
    view.flat = gradients_.bucket(view.index);
    for (int i : plan_.buckets[b].params) {
      view.params.push_back({parameters_[static_cast<size_t>(i)].name, gradients_.param(i)});
      bucket_of_[static_cast<size_t>(i)] = b;
    }
  }
}

void Reducer::on_ready(size_t param) {
  if (!in_backward_) {
    at_end_of_backward([this](bool completed) { end(completed); });
    begin(param);
  }
  if (!reducing_ || param >= parameters_.size()) return;  // a frozen one: see settle_unused
  arrivals_.push_back(static_cast<int>(param));
  mark_ready(param);
}

void Reducer::begin(size_t first) {
  in_backward_ = true;
  reducing_ = false;
  if (options_.mode == DdpMode::kLocal) return;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    require_in_bucket(parameters_[i], gradients_.param(static_cast<int>(i)));
    reached_[i] = i == first || (first != kNone && awaits_gradient(parameters_[i].parameter));
    used_.update(i, reached_[i], parameters_[i].parameter.grad().has_value());
  }
  for (size_t k = 0; k < options_.frozen.size(); ++k) {
    used_.update(parameters_.size() + k, !options_.frozen[k].parameter.requires_grad(), false);
  }
  reducing_ = synchronize_;
  if (reducing_) start_reducing();
}

void Reducer::start_reducing() {
  const OpLabel label("used parameters");
  next_to_launch_ = 0;
  arrivals_.clear();
  for (size_t b = 0; b < buckets_.size(); ++b) {
    buckets_[b].missing = static_cast<int>(plan_.buckets[b].params.size());
    buckets_[b].skipped = false;
    buckets_[b].view.step = steps_;
    buckets_[b].view.last = b + 1 == buckets_.size();
  }
  if (!used_.learned()) {
    used_.exchange(group_);
  } else if (!used_.as_learned()) {
    const std::string message =
        str("reducer: rank ", group_.rank(),
            ": static_graph: this backward reaches other parameters than the first one, or one was "
            "unfrozen; use find_unused_parameters, or call rebuild()");
    group_.abort(message);  // the others wait for buckets as they were learned
    throw ArgumentError(message);
  }
  if (options_.at_begin) options_.at_begin();
  if (know_unused_early_ && unused_allowed()) find_unused();
  // What this backward will not reach is ready now. Its share of the sum is zero, or what earlier
  // micro-batches left.
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (reached_[i]) continue;
    Tensor slot = gradients_.param(static_cast<int>(i));
    if (!parameters_[i].parameter.grad()) ops::fill(slot, 0);
    mark_ready(i);
  }
}

void Reducer::find_unused() {
  const int64_t begin = Timeline::now_ns();
  used_.wait();
  times_.waited(begin);
  for (size_t b = 0, last = 0; b < buckets_.size(); ++b) {
    bool any = false;
    for (size_t k = 0; k < plan_.buckets[b].params.size(); ++k) {
      const auto i = static_cast<size_t>(plan_.buckets[b].params[k]);
      buckets_[b].view.params[k].used = used_.ranks_with(i) > 0;
      any = any || used_.ranks_with(i) > 0;
    }
    buckets_[b].skipped = options_.skip_unused_buckets && !any;
    if (buckets_[b].skipped) continue;
    buckets_[last].view.last = false;
    buckets_[b].view.last = true;
    last = b;
  }
}

void Reducer::mark_ready(size_t param) {
  const size_t bucket = bucket_of_[param];
  if (--buckets_[bucket].missing > 0) return;
  times_.ready(bucket);
  if (options_.mode != DdpMode::kOverlapped) return;
  if (bucket != next_to_launch_) return;  // an earlier one is not ready; it will launch this one
  while (next_to_launch_ < buckets_.size() && buckets_[next_to_launch_].missing == 0) {
    launch(next_to_launch_++);
  }
}

void Reducer::launch(size_t bucket) {
  BucketState& state = buckets_[bucket];
  if (state.skipped) return;
  // Scaled before the sum, once: partial sums then stay within the range of a gradient, and NCCL's
  // own average would lose the in-network reduction that its sum has.
  const bool good = ops::scale_and_check(state.view.flat, 1.0 / group_.size());
  if (!good && options_.nonfinite) options_.nonfinite(state.view);
  times_.launched(bucket);
  state.work = start_labelled(options_.reduction, state.view);
}

void Reducer::end(bool completed) {
  in_backward_ = false;
  if (!completed) return abandon();
  if (!reducing_) return;
  try {
    finish();
  } catch (...) {
    abandon();  // the next backward must not write into memory that is still being reduced
    throw;
  }
}

void Reducer::finish() {
  if (options_.mode != DdpMode::kOverlapped) {
    for (size_t b = 0; b < buckets_.size(); ++b) launch(b);
  }
  wait_for_all();
  settle_unused();
  ++steps_;
  if (options_.at_end) options_.at_end();
}

void Reducer::settle_unused() {
  bool lacking = false;
  for (size_t i = 0; i < parameters_.size() + options_.frozen.size(); ++i) {
    const int ranks = used_.ranks_with(i);
    const bool frozen = i >= parameters_.size();
    lacking = lacking || (ranks < group_.size() && (frozen || !unused_allowed()));
    if (frozen) continue;
    // Some rank had a gradient: all have the mean now. None had: grad() stays what it was.
    if (ranks > 0 && !reached_[i]) parameters_[i].parameter.set_grad_defined(true);
  }
  if (lacking) {
    throw_missing_gradient(used_.here(), parameters_, options_.frozen, unused_allowed(), plan_,
                           group_);
  }
  if (options_.static_graph) used_.learn();
  used_.forget();
}

void Reducer::wait_for_all() {
  for (size_t b = 0; b < buckets_.size(); ++b) {
    const WorkPtr work = std::exchange(buckets_[b].work, nullptr);
    if (work != nullptr) times_.wait(b, work, plan_.buckets[b].bytes);
  }
  const int64_t begin = Timeline::now_ns();
  used_.wait();
  times_.waited(begin);
}

void Reducer::abandon() {
  for (BucketState& bucket : buckets_) {
    try {
      if (const WorkPtr work = std::exchange(bucket.work, nullptr)) work->wait();
    } catch (const std::exception&) {
      // All that matters here is that nothing uses the memory any more.
    }
  }
  used_.forget();
  // Ranks may have stopped at different places; the next exchange shows it before a bucket of one
  // meets another bucket of the same size.
  used_.unlearn();
}

void Reducer::contribute_nothing() {
  check(!in_backward_, "reducer: contribute_nothing within a backward");
  try {
    begin(kNone);
  } catch (...) {
    end(false);
    throw;
  }
  end(true);
}

std::vector<int> Reducer::arrival_order() const {
  std::vector<int> order = arrivals_;
  for (const Bucket& bucket : plan_.buckets) {
    for (int i : bucket.params) {
      if (std::count(arrivals_.begin(), arrivals_.end(), i) == 0) order.push_back(i);
    }
  }
  return order;
}

}  // namespace lockstep
