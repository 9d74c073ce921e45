// StepAgreement: what one rank knows and all must act on at the same step: that somebody asked to
// stop, that it is time to save.
#pragma once

#include "lockstep/distributed/comm/process_group.h"

#include <chrono>
#include <cstdint>
#include <functional>

namespace lockstep {

/// How long it may go unheard what a rank asks for, unless a program says otherwise.
inline constexpr double kAgreeSeconds = 1;

/// What ranks ask for; agreed on, the largest of each.
struct StepRequest {
  int64_t stop_signal = 0;  // by which signal; 0: not at all
  int64_t save = 0;         // 1: a checkpoint

  bool operator==(const StepRequest&) const = default;
};

/// A 24-byte all-reduce (the largest) that is issued when a step begins and looked at when it has
/// ended. It stands in the group's queue before the step's buckets, so that it has ended when
/// backward returns, and it travels while forward computes: no step waits for it. What a rank asks
/// for after a step has begun is heard in the next one that takes part.
///
/// Where a process computes on every core, the threads that send and receive take some per cent of
/// a short step from it (bench/observing_cost), so steps that are much shorter than a person or a
/// scheduler would notice take part now and then only. How often follows from what the ranks have
/// told each other, so that all find the same.
class StepAgreement {
 public:
  using Now = std::function<std::chrono::steady_clock::time_point()>;

  /// `group` must outlive this. Steps that together take the slowest rank at most `seconds` may
  /// pass between two that take part; 0: every step does.
  explicit StepAgreement(ProcessGroup& group, double seconds = kAgreeSeconds,
                         Now now = std::chrono::steady_clock::now);

  /// To be asked once a step: whether it takes part, the same on every rank.
  bool due();
  /// Collective, every rank at the same place among its operations; at most one in flight.
  void start(const StepRequest& mine);
  /// What the ranks asked for in the start() before, the same on every rank; nothing where none was
  /// started. Throws CommError when a peer was lost.
  StepRequest finish();
  /// Both, waiting: between steps.
  StepRequest exchange(const StepRequest& mine);

 private:
  int64_t step_us() const;

  ProcessGroup& group_;
  const double seconds_;
  const Now now_;
  Tensor values_;  // i64 [3]: the request, and microseconds of a step
  WorkPtr work_;
  int64_t interval_ = 1;  // takes part: each step that is so many after the last that did
  int64_t steps_ = 0;     // since then
  std::chrono::steady_clock::time_point started_{};
};

}  // namespace lockstep
