// NcclWatchdog: a thread that looks at a group while its owner does something else. NCCL tells of
// an error only when it is asked, and a collective that waits for a rank which does not come waits
// for ever.
#pragma once

#include "lockstep/distributed/comm/nccl/nccl_communicator.h"
#include "lockstep/distributed/comm/nccl/nccl_flight.h"
#include "lockstep/tensor/device_clock.h"

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace lockstep::comm {

struct NcclWatchdogOptions {
  std::chrono::milliseconds poll{20};
  /// Of an operation, from when the stream has come to it: what the queue before it takes does not
  /// count.
  std::chrono::milliseconds timeout{30'000};
  /// NCCL has found an error, `remote`: on another rank. `op` is null if none was in flight. Called
  /// from the watchdog's thread, as is the next.
  std::function<void(const Op* op, const std::string& words, bool remote)> on_error;
  std::function<void(const Op& op)> on_late;
};

class NcclWatchdog {
 public:
  NcclWatchdog(NcclCommunicator& communicator, NcclFlight& flight, DeviceClock& clock,
               NcclWatchdogOptions options);
  ~NcclWatchdog();
  NcclWatchdog(const NcclWatchdog&) = delete;
  NcclWatchdog& operator=(const NcclWatchdog&) = delete;

 private:
  void loop();
  void look();

  NcclCommunicator& communicator_;
  NcclFlight& flight_;
  DeviceClock& clock_;
  const NcclWatchdogOptions options_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace lockstep::comm
