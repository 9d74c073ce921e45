#include "lockstep/distributed/comm/nccl/nccl_communicator.h"

#include "lockstep/base/error.h"

#include <thread>

namespace lockstep::comm {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr auto kEver = steady_clock::time_point::max();
// A launch blocks while the device's queue is full, which only the abort may end.
constexpr milliseconds kForACall{2000};

}  // namespace

/// `result`, or what becomes of it; kInProgress: aborted, or the deadline has passed. The lock is
/// given up between looks, so that abort() comes in.
NcclResult NcclCommunicator::settle(std::unique_lock<std::mutex>& lock, NcclResult result,
                                    steady_clock::time_point deadline) {
  for (int looks = 0; result == NcclResult::kInProgress; ++looks) {
    lock.unlock();
    // Most calls end within microseconds; the first of a communicator connects the ranks.
    if (looks < 50) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(microseconds(looks < 1000 ? 20 : 500));
    }
    lock.lock();
    if (aborted_ || steady_clock::now() >= deadline) return NcclResult::kInProgress;
    result = api_.async_error(*comm_.load());
  }
  return result;
}

bool NcclCommunicator::connect(int size, const NcclId& id, int rank, const NcclConfig& config,
                               steady_clock::time_point deadline) {
  std::unique_lock lock(mutex_);
  if (aborted_) return false;
  NcclComm* made = nullptr;
  NcclResult result = api_.init(made, size, id, rank, config);
  comm_ = made;
  if (made != nullptr) result = settle(lock, result, deadline);
  if (result == NcclResult::kInProgress) {
    // An abort that could not wait for init() found no communicator to end.
    if (NcclComm* const left = aborted_ ? comm_.exchange(nullptr) : nullptr) api_.abort(*left);
    return false;
  }
  if (result != NcclResult::kSuccess) throw CommError(api_.describe(result, comm_));
  return true;
}

bool NcclCommunicator::issue(const std::function<NcclResult(NcclComm&)>& call) {
  std::unique_lock lock(mutex_);
  if (aborted_ || comm_ == nullptr) return false;
  const NcclResult result = settle(lock, call(*comm_.load()), kEver);
  if (aborted_) return false;
  if (result != NcclResult::kSuccess) throw CommError(api_.describe(result, comm_));
  return true;
}

std::string NcclCommunicator::async_error(bool& remote) {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  // Whoever holds it looks, too.
  if (!lock.owns_lock() || aborted_ || comm_ == nullptr) return "";
  const NcclResult result = api_.async_error(*comm_.load());
  if (result == NcclResult::kSuccess || result == NcclResult::kInProgress) return "";
  remote = result == NcclResult::kRemoteError;
  return api_.describe(result, comm_);
}

void NcclCommunicator::abort() {
  if (aborted_.exchange(true)) return;
  std::unique_lock lock(mutex_, std::defer_lock);
  const auto end = steady_clock::now() + kForACall;
  while (!lock.try_lock() && steady_clock::now() < end) {
    std::this_thread::sleep_for(microseconds(100));
  }
  if (NcclComm* const comm = comm_.exchange(nullptr)) api_.abort(*comm);
}

void NcclCommunicator::close(milliseconds most) {
  std::unique_lock lock(mutex_);
  if (aborted_ || comm_ == nullptr) return;
  const auto deadline = steady_clock::now() + most;
  if (settle(lock, api_.finalize(*comm_.load()), deadline) != NcclResult::kSuccess) return;
  api_.destroy(*comm_.exchange(nullptr));
}

}  // namespace lockstep::comm
