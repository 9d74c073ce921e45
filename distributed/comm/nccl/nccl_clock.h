// NcclClock: the host's time of points on a device's streams, with no wait in the caller's way.
#pragma once

#include "lockstep/distributed/comm/nccl/nccl_flight.h"

#include <memory>
#include <mutex>

namespace lockstep::comm {

class NcclClock {
 public:
  explicit NcclClock(Device device);

  /// A recent one: the device's clock is told from the host's by nanoseconds since then, so that
  /// they may drift, and a float may hold them.
  std::shared_ptr<const NcclAnchor> anchor() const;
  /// Makes a new one if the last is a second old. Blocks for microseconds: for a thread that nobody
  /// waits for.
  void refresh();

 private:
  std::shared_ptr<const NcclAnchor> take() const;

  const std::unique_ptr<Stream> stream_;  // nothing else is on it
  mutable std::mutex mutex_;
  std::shared_ptr<const NcclAnchor> anchor_;
};

}  // namespace lockstep::comm
