// Ranks as threads of one process: for tests, and for programs that want replicas without
// processes.
#pragma once

#include "lockstep/distributed/comm/process_group.h"

#include <functional>
#include <vector>

namespace lockstep {

struct ThreadGroupOptions {
  /// How long a rank waits for the others in one operation before the group fails.
  std::chrono::milliseconds timeout{30'000};
  /// For tests: called in the worker of `rank` before it begins operation `sequence`; may sleep.
  std::function<void(int rank, int64_t sequence)> delay = {};
};

/// `n` groups that talk to each other, rank i at index i. Reductions go in rank order (bf16
/// and f16 accumulated in f32).
std::vector<std::unique_ptr<ProcessGroup>> make_thread_groups(
    int n, const ThreadGroupOptions& options = {});

/// Runs fn(group) on `n` threads, one for each rank, and joins them. If a rank throws, the group is
/// aborted, so that the others fail too instead of waiting, and the exception that came first, but
/// for one that only says that another rank has failed, is thrown again, of the same type of
/// base/error.h, with "rank N: " before its message.
void spawn(int n, const std::function<void(ProcessGroup&)>& fn,
           const ThreadGroupOptions& options = {});

}  // namespace lockstep
