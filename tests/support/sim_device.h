// A simulated GPU behind Device::cuda(): host memory and the CPU's kernels, but a kernel is only
// enqueued, on the calling thread's current stream, and runs there later. Every thread has a first
// stream of its own, as ranks on threads need.
//
// Memory is poisoned (NaN) when it is new, and in stream order when it is freed: who reads it on
// another stream, too early or too late, computes NaN. The device's addresses are none of the
// host's: who follows one crashes, as with a GPU's. ops::to_device copies and waits.
#pragma once

#include "lockstep/tensor/backend.h"
#include "lockstep/tensor/tensor.h"
#include "lockstep/tests/support/sim_stream.h"

#include <cstddef>
#include <functional>

namespace lockstep::testing {

struct SimDeviceOptions {
  Delay compute = {};  // of the streams that threads begin with
  Delay side = {};     // of those that are created
  uint64_t seed = 1;
  LeftOut compute_left_out = {};
  LeftOut side_left_out = {};
};

/// While one lives, Device::cuda() is simulated. One at a time; no such tensor may outlive it.
/// Threads that use the device must have ended, except the one that made it.
class SimDevice {
 public:
  explicit SimDevice(const SimDeviceOptions& options = {});
  ~SimDevice();
  SimDevice(const SimDevice&) = delete;
  SimDevice& operator=(const SimDevice&) = delete;

  /// The calling thread's current stream.
  static SimStream& current();
  /// A stream with the side streams' delay.
  static std::unique_ptr<SimStream> create_stream();

 private:
  const Backend* before_;
};

/// Where the host finds what is at `address` of the simulated device; other addresses as they are.
std::byte* host_address(const void* address);

/// A host tensor over the same memory, for closures that run on a stream.
Tensor host_view(const Tensor& x);

}  // namespace lockstep::testing
