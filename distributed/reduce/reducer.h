// Reducer: turns the gradient-ready events of backward into all-reduces of buckets that run while
// backward goes on (section 3.2.3 and algorithm 1 of Li et al., PVLDB 13(12), 2020).
//
// The life of a step:
//
//   on_ready     backward has written a gradient into its slice of the bucket, and its hook fires
//   mark_ready   it was the bucket's last one: all ready buckets at the front of the plan go
//   launch       a bucket is scaled by 1/N and summed over the ranks, while backward goes on
//   finish       backward has visited every node: wait for the collectives
//
// After backward, grad() of every parameter is the mean over the ranks, in place.
//
// Buckets are launched in the plan's order on every rank, whatever the order in which they become
// ready: collectives are matched by order, so launching by arrival would add unlike buckets or
// hang.
//
// Threads: used by the one thread that runs forward and backward.
#pragma once

#include "lockstep/autograd/variable.h"
#include "lockstep/distributed/comm/process_group.h"
#include "lockstep/distributed/reduce/bucket_plan.h"
#include "lockstep/distributed/reduce/flat_arena.h"

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

class Timeline;

/// How gradients are averaged; the results are the same but for `kLocal`.
enum class DdpMode {
  kLocal,       // not at all: what a step costs without communication
  kNaive,       // one all-reduce for each gradient, after backward
  kBucketed,    // one for each bucket, after backward
  kOverlapped,  // one for each bucket, while backward goes on
};

/// "local", "naive", "bucketed", "overlapped"; throws ArgumentError for other names.
DdpMode parse_ddp_mode(const std::string& name);
const char* name_of(DdpMode mode);

class Reducer {
 public:
  struct Parameter {
    std::string name;
    Variable variable;
  };

  /// All parameters require gradients and lie on one device; the plan indexes them and holds each
  /// once (ArgumentError). From here on their gradients live in the reducer's buckets. `group` and
  /// `timeline` (null: none) must outlive the reducer.
  Reducer(std::vector<Parameter> parameters, BucketPlan plan, ProcessGroup& group, DdpMode mode,
          Timeline* timeline);
  /// Waits for what is in flight; the parameters get their gradient memory for themselves.
  ~Reducer();
  Reducer(const Reducer&) = delete;
  Reducer& operator=(const Reducer&) = delete;

  /// While off, backward only accumulates. The value at the first gradient of a backward decides
  /// for all of it.
  void set_synchronize(bool on) { synchronize_ = on; }
  bool synchronize() const { return synchronize_; }

  const BucketPlan& plan() const { return plan_; }

 private:
  struct BucketState {
    int missing = 0;  // gradients still to come in this backward
    WorkPtr work;     // set once launched
  };

  void on_ready(int param);
  void begin();
  void mark_ready(int bucket);
  void launch(int bucket);
  void finish();
  void reduce_each_gradient();
  void wait_for_all();
  void abandon();
  void require_all_ready();
  void record_transfer(const Work& work, int bucket, int64_t bytes);
  void record_wait(int64_t begin);

  std::vector<Parameter> parameters_;
  BucketPlan plan_;
  std::vector<int> bucket_of_;  // by parameter
  FlatArena gradients_;
  ProcessGroup& group_;
  DdpMode mode_;
  Timeline* timeline_;
  std::vector<HookHandle> hooks_;

  bool synchronize_ = true;
  bool in_backward_ =
      false;  // from a backward's first gradient to its end; the rest belongs to that backward
  bool reducing_ = false;   // whether it synchronises
  int next_to_launch_ = 0;  // buckets before this one are in flight
  std::vector<BucketState> buckets_;
  std::vector<bool> arrived_;  // by parameter
};

}  // namespace lockstep
