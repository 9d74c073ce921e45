// What the CUDA backend needs of the runtime. Compiled only with --config=cuda.
#pragma once

#include <cuda_runtime.h>

namespace lockstep {
class Stream;
}

namespace lockstep::cuda {

/// Throws UnsupportedError with CUDA's own words unless `status` is success.
void check_cuda(cudaError_t status, const char* what);

/// The GPU of this process, for all threads; the probe calls it once, before anything else.
void use_device(int index);
/// Makes it the calling thread's. CUDA's own choice is the thread's, and number 0 in each new one.
void bind_device();

/// The CUDA stream behind `stream`, which must be one of cuda_streams().
cudaStream_t native_stream(Stream& stream);
/// The CUDA stream behind the calling thread's current stream.
cudaStream_t current_native_stream();

}  // namespace lockstep::cuda
