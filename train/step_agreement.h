// StepAgreement: what one rank knows and all must act on at the same step: that somebody asked to
// stop, that it is time to save.
#pragma once

#include "lockstep/distributed/comm/process_group.h"

#include <cstdint>

namespace lockstep {

/// What ranks ask for; agreed on, the largest of each.
struct StepRequest {
  int64_t stop_signal = 0;  // by which signal; 0: not at all
  int64_t save = 0;         // 1: a checkpoint

  bool operator==(const StepRequest&) const = default;
};

/// A 16-byte all-reduce (the largest) that is issued when a step begins and looked at when it has
/// ended. It stands in the group's queue before the step's buckets, so that it has ended when
/// backward returns, and it travels while forward computes: no step waits for it. What a rank asks
/// for after a step has begun is heard in the next one.
class StepAgreement {
 public:
  /// `group` must outlive this.
  explicit StepAgreement(ProcessGroup& group);

  /// Collective, every rank at the same place among its operations; at most one in flight.
  void start(const StepRequest& mine);
  /// What the ranks asked for in the start() before, the same on every rank; nothing where none was
  /// started. Throws CommError when a peer was lost.
  StepRequest finish();
  /// Both, waiting: between steps.
  StepRequest exchange(const StepRequest& mine);

 private:
  ProcessGroup& group_;
  Tensor values_;  // i64 [2]
  WorkPtr work_;
};

}  // namespace lockstep
