// A NCCL whose ranks are threads and whose streams are those of a simulated device: it can be slow,
// fail and hang where it is told to, and notes each call that the real one forbids.
#pragma once

#include "lockstep/distributed/comm/nccl/nccl_api.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::testing {

struct FakeNcclOptions {
  std::string uuid = {};  // of the GPU; empty: one that no other rank has
  /// Calls answer kInProgress and are not on their stream for up to so long.
  std::chrono::microseconds in_progress{0};
  comm::NcclResult id_result = comm::NcclResult::kSuccess;
  comm::NcclResult init_result = comm::NcclResult::kSuccess;
  bool init_hangs = false;
  std::function<void()> at_init = {};  // called first; null: nothing
  /// The call of a collective with this number (from 0, barriers included) ...
  int64_t hang_at = -1;         // ... never ends on this rank's stream
  int64_t in_progress_at = -1;  // ... is in progress for ever
  int64_t refuse_at = -1;       // ... answers `error`
  int64_t error_at = -1;        // ... hangs, and async_error() tells `error`
  comm::NcclResult error = comm::NcclResult::kSystemError;
  bool finalize_hangs = false;
  bool can_register = true;
  comm::NcclResult register_result = comm::NcclResult::kSuccess;
};

/// What the ranks share. Outlives their NcclApi, and the groups.
class FakeNccl {
 public:
  FakeNccl();
  ~FakeNccl();

  /// One rank's library. Its communicators are used with SimStreams.
  std::unique_ptr<comm::NcclApi> rank(FakeNcclOptions options = {});

  /// What no caller of NCCL may do, in words.
  std::vector<std::string> misuses() const;
  /// Communicators that were neither destroyed nor aborted.
  int live() const;
  /// Names of the ranges, of all ranks.
  std::vector<std::string> ranges() const;
  /// The largest max_ctas that was asked for.
  int max_ctas() const;

  /// How often memory was registered, and how much of it is now, in communicators that live.
  int registrations() const;
  int registered() const;

  struct State;

 private:
  std::shared_ptr<State> state_;
};

}  // namespace lockstep::testing
