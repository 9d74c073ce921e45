// Ranks as threads, over the in-process group or over Gloo, each owning its group: for tests of
// groups that wrap another.
#pragma once

#include "lockstep/distributed/comm/process_group.h"

#include <functional>
#include <string>
#include <vector>

namespace lockstep::testing {

using GroupPtr = std::unique_ptr<ProcessGroup>;

/// Both, and how to name them in CAPTURE.
inline const std::vector<std::string> kHostBackends = {"threads", "gloo"};

/// Runs fn(group) on n threads; returns each rank's error, "" for none. The threads of the
/// in-process group sleep at random before some operations. `timeout` is that of one operation.
std::vector<std::string> run_ranks(const std::string& backend, int n,
                                   const std::function<void(GroupPtr)>& fn,
                                   std::chrono::milliseconds timeout = std::chrono::seconds(60));

/// As run_ranks, where no rank may fail: throws the first error.
void run_all_well(const std::string& backend, int n, const std::function<void(GroupPtr)>& fn);

}  // namespace lockstep::testing
