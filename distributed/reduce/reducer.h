// Reducer: turns the gradient-ready events of backward into all-reduces of buckets that run while
// backward goes on (section 3.2.3 and algorithm 1 of Li et al., PVLDB 13(12), 2020).
//
// The life of a step:
//
//   on_ready     backward has written a gradient into its slice of the bucket, and its hook fires
//   begin        it is the first: parameters that this backward will not reach are marked ready
//   mark_ready   it was the bucket's last one: all ready buckets at the front of the plan go
//   launch       a bucket is scaled by 1/N and summed over the ranks, while backward goes on
//   finish       backward has visited every node: wait for the collectives, settle the unused
//
// After backward, grad() of every parameter is the mean over the ranks, in place.
//
// Buckets are launched in the plan's order on every rank, whatever the order in which they become
// ready: collectives are matched by order, so launching by arrival would add unlike buckets or
// hang.
//
// Threads: used by the one thread that runs forward and backward.
#pragma once

#include "lockstep/autograd/named_parameter.h"
#include "lockstep/distributed/comm/process_group.h"
#include "lockstep/distributed/reduce/bucket_plan.h"
#include "lockstep/distributed/reduce/bucket_times.h"
#include "lockstep/distributed/reduce/ddp_mode.h"
#include "lockstep/distributed/reduce/flat_arena.h"
#include "lockstep/distributed/reduce/grad_bucket.h"
#include "lockstep/distributed/reduce/used_parameters.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace lockstep {

struct ReducerOptions {
  DdpMode mode = DdpMode::kOverlapped;
  /// What a parameter without a gradient on some rank means. Off: an error, on every rank, at the
  /// end of the same backward. On: used by no rank, it keeps no gradient; used by some, the others
  /// count as zero.
  bool find_unused_parameters = false;
  /// As find_unused_parameters, but the set is learned from the first synchronised backward and
  /// not exchanged again; a rank that differs from it later ends the group with an error.
  bool static_graph = false;
  /// Buckets of which no rank uses a parameter do not travel (section 6.2.2, layer drop). Which
  /// they are is known before the first bucket, at the price of one small all-reduce that backward
  /// waits for. With find_unused_parameters or static_graph.
  bool skip_unused_buckets = false;
  /// The module's other parameters, in the same order on every rank. One that is unfrozen on some
  /// rank is an error on every rank, at the end of the same backward.
  std::vector<NamedParameter> frozen = {};
  BucketReduction reduction = nullptr;                         // null: all_reduce
  std::function<void(const GradBucket&)> nonfinite = nullptr;  // as DdpOptions
  Timeline* timeline = nullptr;  // null: none; must outlive the reducer
  /// Called in each synchronised backward, on every rank at the same place among the collectives:
  /// before the first bucket, and when all are reduced.
  std::function<void()> at_begin = nullptr;
  std::function<void()> at_end = nullptr;
};

class Reducer {
 public:
  /// All parameters require gradients and lie on one device; the plan indexes them and holds each
  /// once (ArgumentError). From here on their gradients live in the reducer's buckets. `group` must
  /// outlive the reducer.
  Reducer(std::vector<NamedParameter> parameters, BucketPlan plan, ProcessGroup& group,
          ReducerOptions options);
  /// Waits for what is in flight; the parameters get their gradient memory for themselves.
  ~Reducer();
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  /// While off, backward only accumulates. The value at the first gradient of a backward decides
  /// for all of it.
  void set_synchronize(bool on) { synchronize_ = on; }
  bool synchronize() const { return synchronize_; }

  /// Takes part in the other ranks' synchronised backward without one of its own: for a rank whose
  /// loss depends on no parameter. With find_unused_parameters.
  void contribute_nothing();

  bool in_backward() const { return in_backward_; }
  /// Synchronised backwards so far, for hooks; a resumed run counts on.
  int64_t steps() const { return steps_; }
  void set_steps(int64_t steps) { steps_ = steps; }

  const BucketPlan& plan() const { return plan_; }
  /// Lays gradient memory out by another plan, the same on every rank. Gradients are kept; tensors
  /// of theirs that were obtained before throw when used. Not within a backward.
  void adopt(BucketPlan plan);

  /// All parameters in the order in which the last synchronised backward completed them on this
  /// rank; those that it did not reach come last.
  std::vector<int> arrival_order() const;

 private:
  struct BucketState {
    GradBucket view;
    int missing = 0;       // gradients still to come in this backward
    bool skipped = false;  // in this backward
    WorkPtr work;          // set once launched
  };

  static constexpr size_t kNone = static_cast<size_t>(-1);

  void on_ready(size_t param);
  void begin(size_t first);
  void start_reducing();
  void find_unused();
  void mark_ready(size_t param);
  void launch(size_t bucket);
  void end(bool completed);
  void finish();
  void settle_unused();
  void wait_for_all();
  bool unused_allowed() const { return options_.find_unused_parameters || options_.static_graph; }
  void abandon();

  std::vector<NamedParameter> parameters_;
  std::vector<ParamSpec> specs_;  // of the same
  BucketPlan plan_;
  std::vector<size_t> bucket_of_;  // by parameter
  FlatArena gradients_;
  ProcessGroup& group_;
  ReducerOptions options_;
  BucketTimes times_;
  std::vector<HookHandle> hooks_;

  bool synchronize_ = true;
  bool know_unused_early_ = false;
  bool in_backward_ = false;   // from its first gradient to its end; what follows is its state
  bool reducing_ = false;      // whether it synchronises
  size_t next_to_launch_ = 0;  // buckets before this one are in flight
  std::vector<BucketState> buckets_;
  std::vector<bool> reached_;  // by parameter: this backward brings it a gradient
  std::vector<int> arrivals_;  // parameters, as they became ready
  UsedParameters used_;
  int64_t steps_ = 0;  // synchronised backwards so far
};

}  // namespace lockstep
