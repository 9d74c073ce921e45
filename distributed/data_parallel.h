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
#include "lockstep/distributed/ddp_options.h"
#include "lockstep/distributed/reduce/reducer.h"
#include "lockstep/nn/module.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

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
  /// gradients move into one block of memory, and so do their gradients: keep no tensors of theirs
  /// across this call and the first synchronised backward. `module` and `group` must outlive the
  /// wrapper, and that every backward that it is in: no hook and no reduction may destroy it.
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
  /// The same parameters themselves.
  const std::vector<NamedParameter>& parameters() const { return trained_; }
  const std::vector<std::string>& ignored() const { return options_.ignore; }
  const DdpOptions& options() const { return options_; }
  /// Collective: takes rank 0's plan and keeps it: that of a checkpoint, so that a resumed run adds
  /// up in the same order.
  void adopt_plan(const BucketPlan& plan);
  /// Steps that were taken before: a resumed run's hooks count on.
  void set_steps(int64_t steps) { reducer_->set_steps(steps); }
  ProcessGroup& group() const { return group_; }
  /// Whether backward averages over the ranks; not in local mode.
  bool communicates() const { return options_.mode != DdpMode::kLocal; }

 private:
  void build();
  BucketPlan in_mode(BucketPlan plan, const std::vector<ParamSpec>& specs) const;
  BucketPlan make_plan(const std::vector<ParamSpec>& specs,
                       const std::vector<int>& arrival_order) const;
  void move_values(const BucketPlan& plan);
  void end_of_step();

  Module& module_;
  ProcessGroup& group_;
  DdpOptions options_;
  std::vector<NamedParameter> trained_;
  std::vector<ParamSpec> specs_;  // of the same
  FlatArena values_;              // of the same
  std::optional<BufferBroadcast> buffers_;
  bool settled_ = false;  // the plan is final
  std::unique_ptr<Reducer> reducer_;
};

}  // namespace lockstep
