#include "lockstep/tensor/stream.h"

#include "lockstep/base/error.h"
#include "lockstep/tensor/device_graph.h"
#include "lockstep/tensor/memory.h"

#include <chrono>

namespace lockstep {
namespace {

using std::chrono::nanoseconds;
using std::chrono::steady_clock;

class PastEvent final : public Event {
 public:
  explicit PastEvent(steady_clock::time_point time = {}) : time_(time) {}
  bool done() const override { return true; }
  void wait_host() const override {}
  int64_t nanoseconds_since(const Event& earlier) const override {
    return nanoseconds(time_ - static_cast<const PastEvent&>(earlier).time_).count();
  }

 private:
  steady_clock::time_point time_;
};

/// On the host a call returns when its work is done.
class HostStream final : public Stream {
 public:
  EventPtr record() override {
    static const EventPtr past = std::make_shared<PastEvent>();
    return past;
  }
  EventPtr record_timed() override { return std::make_shared<PastEvent>(steady_clock::now()); }
  void wait(const EventPtr& event) override { event->wait_host(); }
};

Stream& current_host_stream() {
  static HostStream stream;
  return stream;
}

Stream* exchange_host_stream(Stream*) { return nullptr; }

std::unique_ptr<Stream> create_host_stream(StreamPriority) {
  return std::make_unique<HostStream>();
}

}  // namespace

void Stream::begin_capture() {
  throw UnsupportedError("this device cannot capture work as a graph");
}

std::unique_ptr<DeviceGraph> Stream::end_capture() { return nullptr; }

const DeviceStreams& device_streams(Device device) {
  static const DeviceStreams host{current_host_stream, exchange_host_stream, create_host_stream};
  return device.is_cpu() ? host : *require_cuda().streams;
}

}  // namespace lockstep
