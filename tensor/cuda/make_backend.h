// The CUDA backend's kernels over given memory and streams: as nvcc compiled them, and as they run
// on the CPU in tests.
#pragma once

#include "lockstep/tensor/backend.h"

namespace lockstep::cuda {

Backend make_backend(const char* name, const DeviceMemory& memory, const DeviceStreams& streams);

}  // namespace lockstep::cuda

namespace lockstep::simt {

/// Linked only by tests (//tensor/cuda:kernels_on_cpu). `memory` must be the host's to read.
Backend make_backend(const char* name, const DeviceMemory& memory, const DeviceStreams& streams);

}  // namespace lockstep::simt
