// The raw memory of each device, below the kernels so that a Tensor can be made without them.
#pragma once

#include "lockstep/tensor/allocator.h"
#include "lockstep/tensor/device.h"

#include <cstddef>

namespace lockstep {

struct DeviceMemory {
  Allocator& allocator;
  void (&zero)(void* memory, size_t bytes);
  /// Between the host and the device in either direction, or within the device. Returns when `from` may be changed.
  void (&copy)(void* to, const void* from, size_t bytes);
};

/// The memory of a device. Throws UnsupportedError for CUDA when this build or this machine has none.
const DeviceMemory& device_memory(Device device);

/// What lies behind Device::cuda(); null: none. set_cuda_backend (backend.h) calls this.
void set_cuda_memory(const DeviceMemory* memory);

[[noreturn]] void throw_no_cuda();

}  // namespace lockstep
