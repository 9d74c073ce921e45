// Streams and events: how work that runs beside the host is put in order. A stream runs what is
// enqueued on it one after the other; two streams meet only at events. The CPU has one stream, on
// which everything has happened when a call returns, so code written for streams is right there
// too.
//
// Kernels go to the calling thread's current stream. A collective goes to a stream of its own: it
// waits for an event that the current stream recorded after the kernel that produced the data, and
// whoever reads the result makes the current stream wait for an event that the collective's stream
// recorded.
#pragma once

#include "lockstep/tensor/device.h"

#include <cstdint>
#include <memory>

namespace lockstep {

/// A point in a stream. Safe from any thread.
class Event {
 public:
  virtual ~Event() = default;
  /// Whether everything enqueued before the point has finished. Never blocks.
  virtual bool done() const = 0;
  /// Blocks the calling thread until done(). Throws what the work before the point failed with.
  virtual void wait_host() const = 0;
  /// Nanoseconds from `earlier` to this point, by the device's clock. Both must be done, of the
  /// same device, and recorded with record_timed().
  virtual int64_t nanoseconds_since(const Event& earlier) const = 0;
};
using EventPtr = std::shared_ptr<const Event>;

class DeviceGraph;

/// Safe from any thread.
class Stream {
 public:
  virtual ~Stream() = default;
  /// The point after everything enqueued so far.
  virtual EventPtr record() = 0;
  /// The same, and the point keeps its time, which costs the device a little more.
  virtual EventPtr record_timed() = 0;
  /// What is enqueued from now on starts when `event` is done. Returns at once.
  virtual void wait(const EventPtr& event) = 0;
  /// What the calling thread enqueues until end_capture() is recorded instead of done
  /// (device_graph.h, whose GraphCapture calls these). Throw UnsupportedError where a device has no
  /// graphs.
  virtual void begin_capture();
  virtual std::unique_ptr<DeviceGraph> end_capture();
};

/// kHigh: where both have something to run the device prefers it, as for short work that others
/// wait for.
enum class StreamPriority { kNormal, kHigh };

/// The streams of one kind of device.
struct DeviceStreams {
  /// The calling thread's current stream.
  Stream& (&current)();
  /// Makes `stream` the calling thread's current one (null: its own first one again); returns the
  /// one before.
  Stream* (&exchange_current)(Stream* stream);
  std::unique_ptr<Stream> (&create)(StreamPriority priority);
};

/// Throws UnsupportedError for CUDA when this build or this machine has none.
const DeviceStreams& device_streams(Device device);

inline Stream& current_stream(Device device) { return device_streams(device).current(); }

/// While one lives, kernels of this thread on that device go to `stream`.
class [[nodiscard]] StreamGuard {
 public:
  StreamGuard(Device device, Stream& stream)
      : streams_(device_streams(device)), before_(streams_.exchange_current(&stream)) {}
  ~StreamGuard() { streams_.exchange_current(before_); }
  StreamGuard(const StreamGuard&) = delete;
  StreamGuard& operator=(const StreamGuard&) = delete;

 private:
  const DeviceStreams& streams_;
  Stream* before_;
};

}  // namespace lockstep
