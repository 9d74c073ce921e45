// DataParallel: trains one module on every rank of a group as if one process had all their data.
// The one file that knows both modules and the reducer.
//
//   DataParallel ddp(model, group);
//   for (...) {
//     optimizer.zero_grad();
//     loss(model(batch)).backward();   // gradients are averaged over the ranks while backward runs
//     optimizer.step();
//   }
//
// Only backward communicates: the model is called as it is, and forward and evaluation may differ
// between the ranks. A backward that reaches none of the module's parameters is not its backward.
#pragma once

#include "lockstep/distributed/buffer_broadcast.h"
#include "lockstep/distributed/comm/process_group.h"
#include "lockstep/distributed/reduce/reducer.h"
#include "lockstep/nn/module.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// The same on every rank.
struct DdpOptions {
  DdpMode mode = DdpMode::kOverlapped;
  double bucket_cap_mb = 25;  // MiB of gradients at which a bucket closes; 0: each gradient alone
  std::optional<double> first_bucket_cap_mb = std::nullopt;  // unset: 1, or less with the rest
  std::optional<double> last_bucket_cap_mb = std::nullopt;   // BucketCaps::last_mb
  std::vector<double> bucket_caps_mb = {};                   // BucketCaps::list_mb
  Planner planner = nullptr;                                 // null: plan_buckets
  /// After the first synchronised backward, buckets are planned anew for the order in which rank 0
  /// completed its gradients.
  bool replan = true;
  bool find_unused_parameters = false;
  bool static_graph = false;         // see ReducerOptions for these three
  bool skip_unused_buckets = false;  //
  /// Each synchronised backward brings rank 0's buffers to all ranks before the next forward.
  bool broadcast_buffers = true;
  std::vector<std::string> ignore = {};  // parameters and buffers that stay each rank's own
  BucketReduction reduction = nullptr;   // how a bucket is summed; null: all_reduce
  Timeline* timeline = nullptr;  // where communication is recorded; must outlive the wrapper
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
  /// afterwards or before, but keep no tensors of theirs across this call and across the first
  /// synchronised backward. `module` and `group` must outlive the wrapper.
  DataParallel(Module& module, ProcessGroup& group, DdpOptions options = {});
  ~DataParallel();

  /// Accumulation: all micro-batches of a group but the last run backward under this.
  NoSync no_sync() { return NoSync(*reducer_); }
  /// Takes part in the other ranks' backward, for a rank whose loss depends on no parameter: it
  /// counts as zero. With find_unused_parameters.
  void contribute_nothing() { reducer_->contribute_nothing(); }
  /// Copies rank 0's buffers (running statistics) to all ranks. Collective.
  void broadcast_buffers();
  /// Collective: after parameters were frozen or unfrozen. Plans anew; gradients are forgotten.
  /// Throws as the constructor; everything is as before then.
  void rebuild();

  const BucketPlan& plan() const { return reducer_->plan(); }
  /// The parameters that the plan indexes.
  const std::vector<ParamSpec>& param_specs() const { return specs_; }
  /// Takes a plan, the same on every rank, and keeps it: that of a checkpoint, so that a resumed
  /// run adds up in the same order.
  void adopt_plan(BucketPlan plan);
  ProcessGroup& group() const { return group_; }

 private:
  void build();
  void guard_frozen(std::vector<NamedParameter> frozen);
  void refuse_unfrozen() const;
  BucketPlan in_mode(BucketPlan plan, const std::vector<ParamSpec>& specs) const;
  BucketPlan make_plan(const std::vector<ParamSpec>& specs,
                       const std::vector<int>& arrival_order) const;
  void move_values(const BucketPlan& plan);
  void begin_of_step();
  void end_of_step();

  Module& module_;
  ProcessGroup& group_;
  DdpOptions options_;
  std::vector<NamedParameter> trained_;
  std::vector<ParamSpec> specs_;        // of the same
  FlatArena values_;                    // of the same
  std::vector<NamedParameter> frozen_;  // when the module was wrapped
  std::vector<HookHandle> frozen_hooks_;
  std::optional<BufferBroadcast> buffers_;
  bool settled_ = false;  // the plan is final
  std::unique_ptr<Reducer> reducer_;
};

}  // namespace lockstep
