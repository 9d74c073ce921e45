// The raw memory of each device, below the kernels so that a Tensor can be made without them.
#pragma once

#include "lockstep/tensor/allocator.h"
#include "lockstep/tensor/device.h"

#include <cstddef>
#include <string>

namespace lockstep {

struct Backend;
struct DeviceStreams;

struct DeviceMemory {
  Allocator& allocator;
  void (&zero)(void* memory, size_t bytes);
  /// Between the host and the device in either direction, or within the device. Returns when `from`
  /// may be changed.
  void (&copy)(void* to, const void* from, size_t bytes);
};

/// The memory of a device. Throws UnsupportedError for CUDA when this build or this machine has
/// none.
const DeviceMemory& device_memory(Device device);

/// What lies behind Device::cuda(): all three, or what is missing.
struct CudaSlot {
  const Backend* backend = nullptr;
  const DeviceMemory* memory = nullptr;
  const DeviceStreams* streams = nullptr;
  std::string missing;
};

/// Fills the slot; an empty one empties it. set_cuda_backend (backend.h) calls this.
void set_cuda_slot(CudaSlot slot);

/// How to fill the slot when Device::cuda() is first used: the CUDA library, linked into a program,
/// registers this before main, so that a program with CUDA starts on a machine that has no driver
/// and says so only when asked for the device.
using CudaProbe = CudaSlot (*)();
void set_cuda_probe(CudaProbe probe);

/// Which GPU of this machine lies behind Device::cuda(): the one that is visible, or else number
/// `local_rank`, the rank among those of this machine. To be called before the device is first
/// used; without a call it is number 0. Throws ArgumentError if another one is in use already.
void choose_cuda_device(int local_rank);
/// What was asked for; for the probe.
int chosen_cuda_device();

/// The filled slot. Throws UnsupportedError that says which is missing: the CUDA library in the
/// program, or what the probe found missing on the machine.
const CudaSlot& require_cuda();

}  // namespace lockstep
