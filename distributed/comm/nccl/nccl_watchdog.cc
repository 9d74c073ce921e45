#include "lockstep/distributed/comm/nccl/nccl_watchdog.h"

#include "lockstep/base/thread_signals.h"

#include <utility>

namespace lockstep::comm {

NcclWatchdog::NcclWatchdog(NcclCommunicator& communicator, NcclFlight& flight, DeviceClock& clock,
                           NcclWatchdogOptions options)
    : communicator_(communicator), flight_(flight), clock_(clock), options_(std::move(options)) {
  thread_ = thread_without_signals([this] { loop(); });
}

NcclWatchdog::~NcclWatchdog() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void NcclWatchdog::loop() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, options_.poll, [this] { return stopping_; })) {
    lock.unlock();
    try {
      look();
    } catch (const std::exception& error) {
      options_.on_error(nullptr, error.what(), false);  // of the device itself
    }
    lock.lock();
  }
}

void NcclWatchdog::look() {
  flight_.look();
  if (flight_.failed()) return;
  const auto oldest = flight_.oldest();
  bool remote = false;
  const std::string words = communicator_.async_error(remote);
  if (!words.empty()) return options_.on_error(oldest ? &oldest->op : nullptr, words, remote);
  const auto most = std::chrono::nanoseconds(options_.timeout).count();
  if (oldest && oldest->since_ns > 0 && steady_now_ns() - oldest->since_ns > most) {
    options_.on_late(oldest->op);
  }
  clock_.refresh();
}

}  // namespace lockstep::comm
