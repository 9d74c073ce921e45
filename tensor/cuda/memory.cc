#include "lockstep/tensor/cuda/memory.h"

#include "lockstep/tensor/caching_allocator.h"
#include "lockstep/tensor/cuda/runtime.h"

namespace lockstep::cuda {
namespace {

void* get_from_device(size_t bytes) {
  bind_device();
  void* memory = nullptr;
  if (cudaMalloc(&memory, bytes) == cudaSuccess) return memory;
  cudaGetLastError();  // an allocation that failed must not fail the next launch too
  return nullptr;
}

void give_to_device(void* memory) { cudaFree(memory); }

void zero(void* memory, size_t bytes) {
  check_cuda(cudaMemsetAsync(memory, 0, bytes, current_native_stream()), "cudaMemset");
}

void copy(void* to, const void* from, size_t bytes) {
  const cudaStream_t stream = current_native_stream();
  check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), "cudaMemcpy");
  check_cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

}  // namespace

const DeviceMemory& cuda_memory() {
  static auto* allocator = new CachingAllocator(get_from_device, give_to_device);
  static const DeviceMemory memory{*allocator, zero, copy};
  return memory;
}

}  // namespace lockstep::cuda
