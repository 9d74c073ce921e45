// Streams and events of the host, and of a device of threads: order, and the times of points.
#include "lockstep/tensor/stream.h"

#include "lockstep/tensor/memory.h"
#include "lockstep/tensor/tensor.h"
#include "lockstep/tests/support/sim_device.h"

#include <doctest/doctest.h>

#include <chrono>
#include <thread>

namespace lockstep {
namespace {

using std::chrono::milliseconds;

constexpr int64_t kMs = 1'000'000;  // nanoseconds

TEST_CASE("the host's points are done at once and keep their time") {
  const auto stream = device_streams(Device::cpu()).create(StreamPriority::kHigh);
  const EventPtr first = stream->record_timed();
  std::this_thread::sleep_for(milliseconds(5));
  const EventPtr second = stream->record_timed();
  CHECK(second->done());
  CHECK(second->nanoseconds_since(*first) >= 5 * kMs);
  CHECK(first->nanoseconds_since(*second) == -second->nanoseconds_since(*first));
}

TEST_CASE("the time between two points of a stream is that of what ran between them") {
  const testing::SimDevice device({.side = {milliseconds(20), milliseconds(20)}});
  const auto stream = testing::SimDevice::create_stream();
  const EventPtr first = stream->record_timed();
  stream->enqueue([] {});
  const EventPtr second = stream->record_timed();
  second->wait_host();
  const int64_t took = second->nanoseconds_since(*first);
  CHECK(took >= 20 * kMs);
  std::this_thread::sleep_for(milliseconds(5));  // the host's own time does not count
  CHECK(second->nanoseconds_since(*first) == took);
  CHECK(first->nanoseconds_since(*first) == 0);
}

TEST_CASE("choose_cuda_device: before the device is in use, and no other afterwards") {
  choose_cuda_device(0);
  CHECK_THROWS_AS(choose_cuda_device(-1), ArgumentError);
  const testing::SimDevice device;
  choose_cuda_device(0);
  CHECK_THROWS_WITH_AS(choose_cuda_device(1),
                       "choose_cuda_device: wanted GPU 1, but this process uses GPU 0 already; "
                       "choose before the first tensor is made there",
                       ArgumentError);
  CHECK(chosen_cuda_device() == 0);
}

}  // namespace
}  // namespace lockstep
