// Where the steps of a run spent their time, all ranks together: their step logs
// (train/step_log.h) read, and put on rank 0's clock.
#pragma once

#include "lockstep/train/read_step_log.h"

#include <string>
#include <vector>

namespace lockstep::report {

struct RunSteps {
  int world_size = 1;
  std::vector<RankLog> ranks;  // those whose file is there, by rank; at least one
  std::vector<int> missing;    // the others

  /// Steps of which every rank here has the events, rising.
  std::vector<int64_t> steps_with_events() const;
};

/// The folder's steps.rankN.jsonl. A rank without one is `missing`: it may have run on another
/// host. Throws IoError when there is none at all, or when one is no step log.
RunSteps read_steps(const std::string& directory);

/// The rank's events of a step, on rank 0's clock; null when it has none of it.
const StepEvents* events_of(const RankLog& rank, int64_t step);

/// All ranks' events as a trace for Perfetto and Chrome, on rank 0's clock, which begins at 0.
void write_merged_trace(std::ostream& out, const RunSteps& run);

}  // namespace lockstep::report
