#include "lockstep/tensor/cuda/runtime.h"

#include "lockstep/base/error.h"

namespace lockstep::cuda {

void check_cuda(cudaError_t status, const char* what) {
  if (status != cudaSuccess) [[unlikely]] {
    throw UnsupportedError(str("cuda: ", what, ": ", cudaGetErrorString(status)));
  }
}

}  // namespace lockstep::cuda
