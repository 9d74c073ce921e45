// The one seam between ops and kernels. A Backend is a device's complete set of kernel tables, one table for each family
// of ops. Tables and their entries are references, so a backend that lacks a family or a kernel does not compile.
//
// Tables are declared beside the public functions in tensor/ops/<family>.h; tensor/cpu and tensor/cuda define them.
#pragma once

#include "lockstep/tensor/device.h"
#include "lockstep/tensor/memory.h"

namespace lockstep {

struct ActivationKernels;
struct CopyKernels;

struct Backend {
  const char* name;
  const DeviceMemory& memory;
  const ActivationKernels& activation;
  const CopyKernels& copy;
};

/// The backend of a device. Throws UnsupportedError for CUDA when this build or this machine has none.
const Backend& backend(Device device);

/// Puts `backend` behind Device::cuda() and returns the one before it (null: none). The CUDA build does this when it is
/// loaded; tests put a simulated device there. Not to be called while such tensors exist.
const Backend* set_cuda_backend(const Backend* backend);

}  // namespace lockstep
