// Where a run is.
#pragma once

#include <cstdint>

namespace lockstep {

/// Between two optimizer steps. An epoch's evaluation belongs to the epoch: after it, `epoch` is
/// the next one and `batch` 0.
struct Position {
  int64_t step = 0;   // optimizer steps done since the run began
  int64_t epoch = 0;  // counted from 0
  int64_t batch = 0;  // batches of this epoch that each rank has used

  bool operator==(const Position&) const = default;
};

/// Optimizer steps in an epoch of `batches` batches: a short last group of micro-batches is a step
/// of its own.
inline int64_t steps_in_epoch(int64_t batches, int64_t grad_accum_steps) {
  return (batches + grad_accum_steps - 1) / grad_accum_steps;
}

}  // namespace lockstep
