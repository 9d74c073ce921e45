// DataParallel: trains one module on every rank of a group as if one process had all their data.
// The one file that knows both modules and the reducer.
//
//   DataParallel ddp(model, group);
//   for (...) {
//     optimizer.zero_grad();
//     loss(model(batch)).backward();   // gradients are averaged over the ranks while backward runs
//     optimizer.step();
//   }
#pragma once

#include "lockstep/distributed/comm/process_group.h"
#include "lockstep/distributed/reduce/reducer.h"
#include "lockstep/nn/module.h"

#include <memory>

namespace lockstep {

struct DdpOptions {
  DdpMode mode = DdpMode::kOverlapped;
  double bucket_cap_mb = 25;  // MiB of gradients at which a bucket closes; 0: each gradient alone
  double first_bucket_cap_mb = 1;  // the same for the first bucket
  Timeline* timeline = nullptr;    // where communication is recorded; must outlive the wrapper
};

/// While one lives, backward only accumulates gradients on this rank. What counts is whether one
/// lives when backward produces its first gradient: wrap the call of backward(); where forward ran
/// does not matter.
class [[nodiscard]] NoSync {
 public:
  explicit NoSync(Reducer& reducer) : reducer_(reducer), before_(reducer.synchronize()) {
    reducer_.set_synchronize(false);
  }
  ~NoSync() { reducer_.set_synchronize(before_); }
  NoSync(const NoSync&) = delete;
  NoSync& operator=(const NoSync&) = delete;

 private:
  Reducer& reducer_;
  bool before_;
};

class DataParallel {
 public:
  /// Collective: every rank of `group` calls it with a module of the same parameters. When names,
  /// shapes, dtypes or the frozen set differ, every rank throws ArgumentError with the first
  /// difference. Rank 0's parameters and buffers are copied to all ranks. Parameters that require
  /// gradients move into one block of memory, and so do their gradients: make the optimizer
  /// afterwards or before, but keep no tensors of theirs across this call. `module` and `group`
  /// must outlive the wrapper.
  DataParallel(Module& module, ProcessGroup& group, const DdpOptions& options = {});
  ~DataParallel();

  /// Accumulation: all micro-batches of a group but the last run backward under this.
  NoSync no_sync() { return NoSync(*reducer_); }
  /// Copies rank 0's buffers (running statistics) to all ranks. Collective.
  void broadcast_buffers();

  const BucketPlan& plan() const { return reducer_->plan(); }
  ProcessGroup& group() const { return group_; }

 private:
  Module& module_;
  ProcessGroup& group_;
  std::unique_ptr<Reducer> reducer_;
};

}  // namespace lockstep
