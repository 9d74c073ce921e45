// The CUDA backend's kernels over given memory and streams: as nvcc compiled them, and as they run
// on the CPU in tests.
#pragma once

#include "lockstep/tensor/backend.h"

namespace lockstep {

/// The families that a library computes faster than our own kernels: on a GPU cuBLASLt and cuDNN
/// take what they can of these, and ours the rest.
struct HeavyKernels {
  const MatmulKernels& matmul;
  const ConvKernels& conv;
  const AttentionKernels& attention;
};

}  // namespace lockstep

namespace lockstep::cuda {

/// Our own kernels for everything.
HeavyKernels own_heavy_kernels();
Backend make_backend(const char* name, const DeviceMemory& memory, const DeviceStreams& streams,
                     const HeavyKernels& heavy = own_heavy_kernels());
/// Whether this program has machine code for the GPU that the thread is bound to.
bool kernels_fit();

}  // namespace lockstep::cuda

/// Linked only by tests (//tensor/cuda:kernels_on_cpu). `memory` must be the host's to read.
namespace lockstep::simt {

HeavyKernels own_heavy_kernels();
Backend make_backend(const char* name, const DeviceMemory& memory, const DeviceStreams& streams,
                     const HeavyKernels& heavy = own_heavy_kernels());

}  // namespace lockstep::simt
