// The group of all ranks of this job, as the environment describes it. What programs call.
#pragma once

#include "lockstep/distributed/comm/process_group.h"

#include <string>

namespace lockstep {

struct ProcessGroupOptions {
  /// "auto": "gloo" under a launcher, "single" without one. "single" refuses a WORLD_SIZE over 1.
  std::string backend = "auto";
  /// How long to wait for the other ranks to start.
  std::chrono::milliseconds start_timeout{60'000};
  /// How long one operation may take, waiting for the slowest rank included.
  std::chrono::milliseconds timeout{30'000};
  /// This rank's own address; empty: the one by which it reaches MASTER_ADDR.
  std::string host = {};
};

/// Blocks until all ranks have come. Throws ArgumentError for a wrong option or environment,
/// CommError if ranks do not come, the port is in use, or the job's token (LOCKSTEP_TOKEN) is
/// refused.
std::unique_ptr<ProcessGroup> make_process_group(const ProcessGroupOptions& options = {});

}  // namespace lockstep
