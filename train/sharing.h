// Sharing: how the ranks of a run share its samples out, and how a run goes on with another number
// of ranks.
//
// An epoch is one order of all samples, which does not depend on the ranks (data/sampler.h). A
// step takes the next ranks * batch_size * accumulated of them. So a checkpoint's position is a
// number of samples into the epoch, and other ranks can go on from there without a sample twice or
// left out, if their steps are as large; at the border of two epochs also if they are not.
#pragma once

#include "lockstep/train/position.h"

#include <cstdint>
#include <optional>
#include <string>

namespace lockstep {

struct Sharing {
  int64_t ranks = 1;
  int64_t batch_size = 0;   // samples of a rank in a micro-batch; 0: not told
  int64_t accumulated = 1;  // micro-batches in a step
  int64_t batches = 0;      // micro-batches in an epoch, of each rank; 0: not known

  int64_t global_batch() const { return ranks * batch_size; }
  int64_t samples_in_step() const { return global_batch() * accumulated; }
  bool operator==(const Sharing&) const = default;
};

/// "96 = 3 ranks x 16 x 2"
std::string describe(const Sharing& sharing);

/// What resuming with other ranks changes.
struct Reshared {
  /// At the same sample, in the steps and batches of the ranks that go on.
  Position position;
  std::string notice = {};  // for the console
};

/// Where ranks that share as `now` go on from `at`, which ranks that shared as `before` had
/// reached. `steps_count`: the run ends after a number of steps, so that the step must stay what it
/// is; otherwise it is counted anew where epochs have another number of steps, so that schedules
/// and the end are where they belong. With now.batches 0 only the rest is checked, and the position
/// means nothing. Throws ArgumentError in the name of `checkpoint`, with the reason and a remedy,
/// when it cannot be done.
Reshared reshare(const std::string& checkpoint, const Position& at, const Sharing& before,
                 const Sharing& now, bool steps_count);

}  // namespace lockstep
