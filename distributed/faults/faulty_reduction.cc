#include "lockstep/distributed/faults/faulty_reduction.h"

#include "lockstep/base/timeline.h"
#include "lockstep/tensor/ops/copy.h"

#include <unistd.h>

#include <csignal>
#include <deque>
#include <limits>
#include <memory>
#include <thread>
#include <utility>

namespace lockstep {
namespace {

/// A Work that hands on to another one, and does something more once that is waited for.
class WorkAndThen : public Work {
 public:
  WorkAndThen(WorkPtr inner, std::function<void()> then)
      : inner_(std::move(inner)), then_(std::move(then)) {}

  void wait() override {
    inner_->wait();
    if (then_) std::exchange(then_, nullptr)();
  }
  void wait_host(std::chrono::milliseconds deadline) override {
    inner_->wait_host(deadline);
    if (then_) std::exchange(then_, nullptr)();
  }
  bool done() const override { return inner_->done(); }
  Times times() const override { return inner_->times(); }
  int64_t bytes_sent() const override { return inner_->bytes_sent(); }

 private:
  WorkPtr inner_;
  std::function<void()> then_;
};

/// A Work that says it is done, at once.
class NoWork : public Work {
 public:
  void wait() override {}
  void wait_host(std::chrono::milliseconds) override {}
  bool done() const override { return true; }
  Times times() const override { return {now_, now_}; }
  int64_t bytes_sent() const override { return 0; }

 private:
  const int64_t now_ = Timeline::now_ns();
};

/// A Work whose operation is issued later: by start(), or when somebody waits for it.
class LateWork : public Work {
 public:
  explicit LateWork(std::function<WorkPtr()> issue) : issue_(std::move(issue)) {}

  void start() {
    if (inner_ == nullptr) inner_ = issue_();
  }
  void wait() override {
    start();
    inner_->wait();
  }
  void wait_host(std::chrono::milliseconds deadline) override {
    start();
    inner_->wait_host(deadline);
  }
  bool done() const override { return inner_ != nullptr && inner_->done(); }
  Times times() const override { return inner_->times(); }
  int64_t bytes_sent() const override { return inner_->bytes_sent(); }

 private:
  std::function<WorkPtr()> issue_;
  WorkPtr inner_;
};

Tensor first_element(const GradBucket& bucket) { return bucket.flat.slice(0, 1); }

/// In a ResNet gradients become complete in the same order on every rank, so that launching by
/// arrival does no harm, until one day two branches change places on one rank. Here they do: the
/// first bucket of a step travels behind the second.
BucketReduction arrival_order(const BucketReduction& inner) {
  struct State {
    int64_t step = -1;  // the last one with a bucket
    std::shared_ptr<LateWork> held;
  };
  return [inner, state = std::make_shared<State>()](const GradBucket& bucket) -> WorkPtr {
    const bool first = std::exchange(state->step, bucket.step) != bucket.step;
    check(!(first && bucket.last),
          "fault arrival-order: wanted several buckets, got one; choose a ",
          "smaller --bucket-cap-mb");
    if (first) {
      state->held = std::make_shared<LateWork>([inner, &bucket] { return inner(bucket); });
      return state->held;
    }
    WorkPtr work = inner(bucket);
    if (state->held != nullptr) std::exchange(state->held, nullptr)->start();
    return work;
  };
}

/// The sum goes into memory of its own and is never looked at: the worst that can happen to who
/// does not wait, in every run, without a race.
BucketReduction forget_wait(const BucketReduction& inner) {
  struct Travelling {
    GradBucket bucket;
    WorkPtr work;
  };
  struct State {
    std::deque<std::unique_ptr<Travelling>> all;
    void wait(size_t leave) {
      while (all.size() > leave) {
        all.front()->work->wait();
        all.pop_front();
      }
    }
    ~State() {
      try {
        wait(0);
      } catch (const std::exception&) {
        // Whoever uses the group next is told; here the memory only has to be free.
      }
    }
  };
  return [inner, state = std::make_shared<State>()](const GradBucket& bucket) -> WorkPtr {
    if (bucket.index == 0) state->wait(0);  // what is left of the step before
    auto copy = std::make_unique<Travelling>(Travelling{bucket, nullptr});
    copy->bucket.flat = ops::clone(bucket.flat);
    for (GradBucket::Param& param : copy->bucket.params) {
      const auto begin = static_cast<int64_t>(
          (param.grad.offset_bytes() - bucket.flat.offset_bytes()) / size_of(bucket.flat.dtype()));
      param.grad =
          copy->bucket.flat.slice(begin, begin + param.grad.numel()).reshape(param.grad.shape());
    }
    copy->work = inner(copy->bucket);
    state->all.push_back(std::move(copy));
    return std::make_shared<NoWork>();
  };
}

/// As if the bucket's largest parameter were tied, its two uses had brought half of the gradient
/// each, and the second had been added to what had travelled already.
BucketReduction half_reduced_tied(const BucketReduction& inner, int ranks) {
  return [inner, ranks](const GradBucket& bucket) -> WorkPtr {
    if (bucket.index != 0) return inner(bucket);
    const GradBucket::Param* tied = &bucket.params[0];
    for (const GradBucket::Param& param : bucket.params) {
      if (param.grad.numel() > tied->grad.numel()) tied = &param;
    }
    Tensor grad = tied->grad;
    ops::scale(grad, 0.5);
    const Tensor second = ops::clone(grad);
    // Added by backward itself, which knows nothing of ranks: not divided by their number.
    return std::make_shared<WorkAndThen>(
        inner(bucket), [grad, second, ranks]() mutable { ops::add_scaled(second, ranks, grad); });
  };
}

BucketReduction scaled(const BucketReduction& inner, double factor) {
  return [inner, factor](const GradBucket& bucket) -> WorkPtr {
    Tensor flat = bucket.flat;
    ops::scale(flat, factor);
    return inner(bucket);
  };
}

/// Before the first bucket of `fault`'s steps travels, `act` on it.
BucketReduction before_first(const BucketReduction& inner, const Fault& fault,
                             std::function<void(const GradBucket&)> act) {
  return [inner, fault, act = std::move(act)](const GradBucket& bucket) -> WorkPtr {
    if (bucket.index == 0 && fault.in_step(bucket.step)) act(bucket);
    return inner(bucket);
  };
}

BucketReduction corrupt(const BucketReduction& inner, const Fault& fault) {
  return [inner, fault](const GradBucket& bucket) -> WorkPtr {
    if (bucket.index != 0 || !fault.in_step(bucket.step)) return inner(bucket);
    return std::make_shared<WorkAndThen>(inner(bucket), [one = first_element(bucket)]() mutable {
      Tensor host = ops::clone(ops::to_device(one, Device::cpu()));
      host.mutable_raw()[host.nbytes() - 2] ^= std::byte{0x40};  // one of the weightier bits
      ops::copy(ops::to_device(host, one.device()), one);
    });
  };
}

BucketReduction skip(const BucketReduction& inner, const Fault& fault) {
  return [inner, fault](const GradBucket& bucket) -> WorkPtr {
    if (fault.in_step(bucket.step)) return std::make_shared<NoWork>();
    return inner(bucket);
  };
}

BucketReduction with_fault(const Fault& fault, const BucketReduction& inner, int ranks) {
  switch (fault.kind) {
    case FaultKind::kArrivalOrder:
      return arrival_order(inner);
    case FaultKind::kCorrupt:
      return corrupt(inner, fault);
    case FaultKind::kDie:
      return before_first(inner, fault, [](const GradBucket&) { ::kill(::getpid(), SIGKILL); });
    case FaultKind::kForgetWait:
      return forget_wait(inner);
    case FaultKind::kHalfReducedTied:
      return half_reduced_tied(inner, ranks);
    case FaultKind::kNan:
      return before_first(inner, fault, [](const GradBucket& bucket) {
        Tensor one = first_element(bucket);
        ops::fill(one, std::numeric_limits<double>::quiet_NaN());
      });
    case FaultKind::kNoScale:
      return scaled(inner, ranks);
    case FaultKind::kScaleTwice:
      return scaled(inner, 1.0 / ranks);
    case FaultKind::kSkip:
      return skip(inner, fault);
    case FaultKind::kSlow:
      return before_first(inner, fault, [delay = fault.delay](const GradBucket&) {
        std::this_thread::sleep_for(delay);
      });
    case FaultKind::kDifferentOrder:
    case FaultKind::kNoSync:
    case FaultKind::kSameData:
    case FaultKind::kSeed:
      return inner;  // not of the reduction
  }
  return inner;
}

/// Whether it is one of with_fault's, above.
bool of_reduction(FaultKind kind) {
  return kind != FaultKind::kDifferentOrder && kind != FaultKind::kNoSync &&
         kind != FaultKind::kSameData && kind != FaultKind::kSeed;
}

}  // namespace

BucketReduction with_faults(const std::vector<Fault>& faults, ProcessGroup& group,
                            BucketReduction inner) {
  for (const Fault& fault : faults) {
    check_fault(fault, group.size());
    if (!fault.on_rank(group.rank()) || !of_reduction(fault.kind)) continue;
    if (inner == nullptr) {
      inner = [&group](const GradBucket& bucket) { return group.all_reduce(bucket.flat); };
    }
    inner = with_fault(fault, inner, group.size());
  }
  return inner;
}

}  // namespace lockstep
