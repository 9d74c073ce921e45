// StepTimes: what the steps of a run spent their time on; the source of the progress line's means
// and of the final table.
#pragma once

#include "lockstep/base/timeline.h"

#include <array>
#include <cstddef>
#include <string>
#include <vector>

namespace lockstep {

class StepTimes {
 public:
  /// What is kept of a step, in milliseconds but for the last two.
  enum Kind {
    kForward,
    kBackward,
    kExposed,
    kPeerWait,  // waiting for communication while none ran: for ranks that are not there yet
    kOptimizer,
    kDataWait,
    kGraph,  // a step that was captured: forward, backward and optimizer in one
    kHidden,
    kWall,
    kBytes,        // that this rank handed to the group for its gradients
    kUnaccounted,  // by how much the parts miss the wall time: a fraction (step_record.h)
    kKinds
  };

  /// Keeps the last `capacity` steps; the memory is taken here.
  explicit StepTimes(size_t capacity = 20000);

  void add(const StepSummary& summary);
  size_t size() const { return count_ < steps_.size() ? count_ : steps_.size(); }

  /// The mean over the last `steps` steps.
  double mean(Kind kind, size_t steps) const;
  /// The smallest value that at least the fraction `q` of the kept steps do not exceed; 0 when
  /// there are none.
  double quantile(Kind kind, double q) const;

  /// "comm 41 ms, 37 hidden, 4 exposed (2 %)", of the step: means over the last `steps` steps.
  std::string comm_phrase(size_t steps) const;
  /// Lines of "what, median, p90": times, then megabytes (10^6). Lines at its
  /// end say so when the mean data wait is more than 5 % of the mean step, and when the parts miss
  /// the time of the median step by more than 1 %. Ends with a newline.
  std::string table() const;

 private:
  std::vector<std::array<double, kKinds>> steps_;  // a ring
  size_t count_ = 0;
};

}  // namespace lockstep
