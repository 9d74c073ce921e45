// What the CUDA backend needs of the runtime. Compiled only with --config=cuda.
#pragma once

#include <cuda_runtime.h>

namespace lockstep::cuda {

/// Throws UnsupportedError with CUDA's own words unless `status` is success.
void check_cuda(cudaError_t status, const char* what);

/// The CUDA stream behind the calling thread's current stream.
cudaStream_t current_native_stream();

}  // namespace lockstep::cuda
