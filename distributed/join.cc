#include "lockstep/distributed/join.h"

#include "lockstep/base/error.h"
#include "lockstep/base/timeline.h"
#include "lockstep/distributed/comm/op_label.h"
#include "lockstep/distributed/data_parallel.h"
#include "lockstep/nn/batch_norm.h"
#include "lockstep/tensor/ops/copy.h"

#include <algorithm>
#include <string>
#include <utility>

namespace lockstep {

/// Who has a batch in the present step.
class Join::Votes {
 public:
  explicit Votes(ProcessGroup& group)
      : group_(group), votes_(Tensor::zeros({group.size()}, DType::kI32)), live_(group.size()) {}
  ~Votes() {
    try {
      settle();
    } catch (const std::exception&) {
      // Whoever uses the group next is told; here the memory only has to be free.
    }
  }

  void cast(bool live) {
    settle();
    ops::fill(votes_, 0);
    votes_.mutable_data<int32_t>()[group_.rank()] = live ? 1 : 0;
    const OpLabel label("who still has batches");
    work_ = group_.all_reduce(votes_);
    fresh_ = true;
  }

  /// Waits for the votes of this step, if that has not happened.
  void settle() {
    if (work_ == nullptr) return;
    const ScopedSpan span(timeline, Activity::kCommWait);
    std::exchange(work_, nullptr)->wait();
    const int32_t* votes = votes_.data<int32_t>();
    live_ = static_cast<int>(std::count(votes, votes + group_.size(), 1));
    // When all are out, buffers stay those of the step before.
    if (live_ > 0) first_ = static_cast<int>(std::find(votes, votes + group_.size(), 1) - votes);
  }

  int live() const { return live_; }
  int first() {
    settle();
    return first_;
  }

  /// What a bucket that was divided by the number of ranks still has to be multiplied by.
  double factor(const GradBucket& bucket) {
    settle();
    if (std::exchange(fresh_, false)) step_ = bucket.step;
    check(step_ == bucket.step, "Join: rank ", group_.rank(),
          ": a synchronised backward without step() before it");
    return static_cast<double>(group_.size()) / live_;
  }

  Timeline* timeline = nullptr;

 private:
  ProcessGroup& group_;
  Tensor votes_;  // i32 [size]; 1: that rank has a batch
  WorkPtr work_;
  int live_;
  int first_ = 0;
  bool fresh_ = false;  // cast, and no bucket has gone since
  int64_t step_ = -1;   // the backward that the votes were for
};

Join::Join(Module& module, ProcessGroup& group)
    : module_(module), group_(group), votes_(std::make_shared<Votes>(group)) {}

Join::~Join() {
  if (!open_) return;
  group_.abort(str("rank ", group_.rank(), " left a joined loop without finish()"));
}

DdpOptions Join::options(DdpOptions options) const {
  check(!options.static_graph,
        "Join: with static_graph each backward of a rank reaches the same parameters, and that of "
        "a rank without batches reaches none; use find_unused_parameters");
  check(options.mode != DdpMode::kLocal, "Join: local mode averages nothing; train without it");
  BucketReduction inner = std::move(options.reduction);
  if (inner == nullptr) {
    inner = [&group = group_](const GradBucket& bucket) { return group.all_reduce(bucket.flat); };
  }
  votes_->timeline = options.timeline;
  options.reduction = [votes = votes_, inner = std::move(inner)](const GradBucket& bucket) {
    const double factor = votes->factor(bucket);
    Tensor flat = bucket.flat;
    if (factor != 1) ops::scale(flat, factor);
    return inner(bucket);
  };
  options.buffers_from = [votes = votes_] { return votes->first(); };
  return options;
}

void Join::require_silent_forward() {
  if (std::exchange(checked_, true)) return;
  module_.for_each_module([](Module& part) {
    const auto* norm = dynamic_cast<BatchNorm2d*>(&part);
    check(norm == nullptr || !norm->has_exchange(),
          "Join: the module has SyncBatchNorm, whose forward waits for every rank, and a rank "
          "without batches runs none; leave use_sync_batch_norm out, or give all ranks equally "
          "many batches (uneven.h)");
  });
}

void Join::step() {
  require_silent_forward();
  open_ = true;
  votes_->cast(true);
}

int64_t Join::finish(DataParallel& ddp, const std::function<void()>& after_backward) {
  require_silent_forward();
  open_ = true;
  for (int64_t shadowed = 0;; ++shadowed) {
    votes_->cast(false);
    votes_->settle();
    if (votes_->live() == 0) {
      open_ = false;
      return shadowed;
    }
    for (const NamedParameter& named : ddp.parameters()) Variable(named.parameter).zero_grad();
    shadow_backward(ddp);
    if (after_backward) after_backward();
  }
}

int Join::live_ranks() const { return votes_->live(); }

}  // namespace lockstep
