#include "lockstep/tests/support/sim_device.h"

#include "lockstep/base/error.h"
#include "lockstep/tests/support/sim_memory.h"
#include "lockstep/tests/support/sim_tables.h"

#include <atomic>
#include <utility>

namespace lockstep::testing {
namespace {

SimDeviceOptions options_in_force;
std::atomic<uint64_t> generation{0};  // odd: a device lives
std::atomic<uint64_t> streams_made{0};

thread_local SimStream* chosen = nullptr;

/// The stream that a thread begins with; a later device makes a new one.
struct First {
  uint64_t generation = 0;
  std::unique_ptr<SimStream> stream;
};
thread_local First first;

Stream& current_stream_of_thread() { return SimDevice::current(); }
Stream* exchange_current(Stream* stream) {
  return std::exchange(chosen, static_cast<SimStream*>(stream));
}
std::unique_ptr<Stream> create(StreamPriority) { return SimDevice::create_stream(); }

const Backend& sim_backend() {
  static const DeviceStreams streams{current_stream_of_thread, exchange_current, create};
  static const Backend backend = wrap_backend("simulated", sim_memory(), streams);
  return backend;
}

}  // namespace

SimDevice::SimDevice(const SimDeviceOptions& options) {
  check(generation % 2 == 0, "SimDevice: there is one already");
  options_in_force = options;
  ++generation;
  before_ = set_cuda_backend(&sim_backend());
}

SimDevice::~SimDevice() {
  first.stream.reset();
  sim_memory().allocator.release_cached();
  set_cuda_backend(before_);
  ++generation;
}

SimStream& SimDevice::current() {
  if (chosen != nullptr) return *chosen;
  if (first.generation != generation || first.stream == nullptr) {
    check(generation % 2 == 1, "SimDevice: none lives");
    first.stream = std::make_unique<SimStream>(options_in_force.compute,
                                               options_in_force.seed + ++streams_made,
                                               options_in_force.compute_left_out);
    first.generation = generation;
  }
  return *first.stream;
}

std::unique_ptr<SimStream> SimDevice::create_stream() {
  return std::make_unique<SimStream>(options_in_force.side, options_in_force.seed + ++streams_made,
                                     options_in_force.side_left_out);
}

Tensor host_view(const Tensor& x) {
  if (!x.defined()) return x;
  return Tensor::borrow(host_address(x.raw()), x.shape(), x.dtype());
}

}  // namespace lockstep::testing
