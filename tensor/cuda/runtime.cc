#include "lockstep/tensor/cuda/runtime.h"

#include "lockstep/base/error.h"

#include <atomic>

namespace lockstep::cuda {
namespace {

std::atomic<int> device_in_use{0};

}  // namespace

void check_cuda(cudaError_t status, const char* what) {
  if (status != cudaSuccess) [[unlikely]] {
    throw UnsupportedError(str("cuda: ", what, ": ", cudaGetErrorString(status)));
  }
}

void use_device(int index) { device_in_use = index; }

void bind_device() {
  static thread_local int bound = -1;
  const int index = device_in_use.load(std::memory_order_relaxed);
  if (bound == index) [[likely]]
    return;
  check_cuda(cudaSetDevice(index), "cudaSetDevice");
  bound = index;
}

}  // namespace lockstep::cuda
