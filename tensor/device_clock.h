// DeviceClock: the host's time of points on a device's streams.
#pragma once

#include "lockstep/tensor/stream.h"

#include <cstdint>
#include <memory>
#include <mutex>

namespace lockstep {

/// Safe from any thread. On the CPU, too, where a point is a moment of the host's.
class DeviceClock {
 public:
  /// Blocks for microseconds.
  explicit DeviceClock(Device device);

  /// A moment that both clocks know. Times are told by what has passed since, so that the clocks
  /// may drift, and a device's float may hold it.
  struct Anchor {
    int64_t steady_ns = 0;
    EventPtr event;

    /// The steady clock's nanoseconds at `point`, which is done and was recorded with
    /// record_timed().
    int64_t steady_ns_of(const Event& point) const {
      return steady_ns + point.nanoseconds_since(*event);
    }
  };
  std::shared_ptr<const Anchor> anchor() const;
  /// Makes a new anchor if the last is a second old and the device answers within a fraction of a
  /// millisecond: a watchdog calls this, and a hung device must not hang it too.
  void refresh();

 private:
  /// Null when the device has not answered within `patience` nanoseconds.
  std::shared_ptr<const Anchor> take(int64_t patience) const;

  const std::unique_ptr<Stream> stream_;  // nothing else is on it
  mutable std::mutex mutex_;
  std::shared_ptr<const Anchor> anchor_;
};

}  // namespace lockstep
