// DeviceTimeline: a Timeline told of what a device does. The host is done with a kernel once it is
// enqueued, so a span that the host would measure says nothing; here points on the device's stream
// bound it, and end_step() reads them when the step is over. So a step's end waits for the device:
// what a program that wants nothing measured need not do.
#pragma once

#include "lockstep/base/timeline.h"
#include "lockstep/tensor/device_clock.h"

#include <memory>

namespace lockstep {

class DeviceTimeline {
 public:
  /// `timeline` may be null: nothing is recorded then. It outlives this; its steps are ended by the
  /// thread that uses this.
  DeviceTimeline(Timeline* timeline, Device device);

  Timeline* timeline() const { return timeline_; }
  /// Whether spans are the device's.
  bool on_device() const { return clock_ != nullptr; }

  /// Records what the calling thread's current stream does from construction to destruction; on the
  /// CPU that is what the thread does.
  class [[nodiscard]] Span {
   public:
    Span(DeviceTimeline& to, Activity activity, int32_t id = -1);
    ~Span();
    Span(const Span&) = delete;
    Span& operator=(const Span&) = delete;

   private:
    DeviceTimeline& to_;
    Activity activity_;
    int32_t id_;
    int64_t begin_ns_ = 0;  // on the CPU
    EventPtr begin_;        // on a device
  };

 private:
  Timeline* timeline_;
  Device device_;
  std::shared_ptr<DeviceClock> clock_;  // null on the CPU, and with nothing to tell
};

}  // namespace lockstep
