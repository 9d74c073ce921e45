#include "lockstep/tensor/device_timeline.h"

#include "lockstep/tests/support/sim_device.h"

#include <doctest/doctest.h>

#include <chrono>
#include <stdexcept>
#include <thread>

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using testing::SimDevice;

void kernel(milliseconds takes) {
  SimDevice::current().enqueue([=] { std::this_thread::sleep_for(takes); });
}

TEST_CASE("a span lasts as long as the device works, though the host has gone on") {
  const SimDevice device;
  Timeline timeline;
  DeviceTimeline to(&timeline, Device::cuda());
  CHECK(to.on_device());
  timeline.begin_step(1);
  const int64_t begin = Timeline::now_ns();
  {
    const DeviceTimeline::Span span(to, Activity::kForward);
    kernel(milliseconds(40));
  }
  {
    const DeviceTimeline::Span span(to, Activity::kBackward, 3);
    kernel(milliseconds(20));
  }
  const int64_t enqueued = Timeline::now_ns();
  const StepSummary summary = timeline.end_step();
  CHECK(enqueued - begin < 40'000'000);
  CHECK(summary.of(Activity::kForward) >= 39);
  CHECK(summary.of(Activity::kBackward) >= 19);
  CHECK(summary.wall >= 59);
  const auto& events = timeline.last_step().events;
  REQUIRE(events.size() == 2);
  // By the host's clock: from when the host enqueued the work, one behind the other.
  CHECK(events[0].span.begin_ns >= begin - 1'000'000);
  CHECK(events[1].span.begin_ns >= events[0].span.end_ns - 1'000'000);
  CHECK(events[1].span.id == 3);
}

TEST_CASE("on the CPU, and without a timeline, nothing is deferred") {
  Timeline timeline;
  DeviceTimeline to(&timeline, Device::cpu());
  CHECK(!to.on_device());
  timeline.begin_step(1);
  {
    const DeviceTimeline::Span span(to, Activity::kForward);
    std::this_thread::sleep_for(milliseconds(5));
  }
  CHECK(timeline.end_step().of(Activity::kForward) >= 5);
  DeviceTimeline off(nullptr, Device::cpu());
  const DeviceTimeline::Span nothing(off, Activity::kForward);
}

TEST_CASE("what was deferred is told once, and an error of it ends no step") {
  Timeline timeline;
  timeline.begin_step(1);
  timeline.defer([] { return std::optional<Span>({Activity::kOther, 7, 1, 2, 3}); });
  timeline.defer([] { return std::optional<Span>(); });
  timeline.defer([]() -> std::optional<Span> { throw std::runtime_error("the device is lost"); });
  timeline.end_step();
  REQUIRE(timeline.last_step().events.size() == 1);
  CHECK(timeline.last_step().events[0].span.id == 7);
  timeline.begin_step(2);
  timeline.defer([] { return std::optional<Span>({Activity::kOther, 8, 1, 2, 3}); });
  timeline.begin_step(3);  // the one before was not ended
  timeline.end_step();
  CHECK(timeline.last_step().events.empty());
}

}  // namespace
}  // namespace lockstep
