#include "lockstep/tensor/device_timeline.h"

#include <exception>
#include <optional>
#include <utility>

namespace lockstep {

DeviceTimeline::DeviceTimeline(Timeline* timeline, Device device)
    : timeline_(timeline),
      device_(device),
      clock_(timeline == nullptr || device.is_cpu() ? nullptr
                                                    : std::make_shared<DeviceClock>(device)) {}

DeviceTimeline::Span::Span(DeviceTimeline& to, Activity activity, int32_t id)
    : to_(to), activity_(activity), id_(id) {
  if (to_.timeline_ == nullptr) return;
  if (to_.on_device()) {
    begin_ = current_stream(to_.device_).record_timed();
  } else {
    begin_ns_ = Timeline::now_ns();
  }
}

DeviceTimeline::Span::~Span() {
  if (to_.timeline_ == nullptr) return;
  if (!to_.on_device()) {
    to_.timeline_->record({activity_, id_, begin_ns_, Timeline::now_ns(), 0});
    return;
  }
  EventPtr end;
  try {
    end = current_stream(to_.device_).record_timed();
  } catch (const std::exception&) {
    return;  // the device has failed, and whoever uses it next is told
  }
  to_.timeline_->defer([clock = to_.clock_, activity = activity_, id = id_,
                        begin = std::move(begin_), end = std::move(end)] {
    end->wait_host();
    clock->refresh();
    const auto anchor = clock->anchor();
    return std::optional<lockstep::Span>(
        {activity, id, anchor->steady_ns_of(*begin), anchor->steady_ns_of(*end), 0});
  });
}

}  // namespace lockstep
