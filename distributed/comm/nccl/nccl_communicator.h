// NcclCommunicator: owns one communicator, waits for calls that are in progress, and can be aborted
// at any moment.
//
// Threads: connect() first. Then issue() on one thread, the others on any.
#pragma once

#include "lockstep/distributed/comm/nccl/nccl_api.h"

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>

namespace lockstep::comm {

class NcclCommunicator {
 public:
  explicit NcclCommunicator(NcclApi& api) : api_(api) {}
  /// Aborts unless it was closed.
  ~NcclCommunicator() { abort(); }
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  /// Collective over the ranks with the same id. Throws CommError with NCCL's words; returns false
  /// if it was aborted or `deadline` has passed.
  bool connect(int size, const NcclId& id, int rank, const NcclConfig& config,
               std::chrono::steady_clock::time_point deadline);

  /// Makes the call and waits until it is no longer in progress. Throws CommError with NCCL's
  /// words; returns false if it was aborted.
  bool issue(const std::function<NcclResult(NcclComm&)>& call);

  /// Words of an error that was found; empty: none. `remote`: of another rank.
  std::string async_error(bool& remote);

  /// Ends what is on the stream. Does nothing the second time.
  void abort();

  /// Once nothing is in flight: destroys it without an abort, if that takes no longer than `most`.
  void close(std::chrono::milliseconds most);

 private:
  NcclResult settle(std::unique_lock<std::mutex>& lock, NcclResult result,
                    std::chrono::steady_clock::time_point deadline);

  NcclApi& api_;
  std::atomic<bool> aborted_{false};
  std::mutex mutex_;  // held during each call of `comm_` except abort
  std::atomic<NcclComm*> comm_{nullptr};
};

}  // namespace lockstep::comm
