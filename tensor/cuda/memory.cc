#include "lockstep/tensor/cuda/memory.h"

#include "lockstep/base/error.h"
#include "lockstep/tensor/caching_allocator.h"
#include "lockstep/tensor/cuda/runtime.h"
#include "lockstep/tensor/cuda/stream.h"
#include "lockstep/tensor/live.h"
#include "lockstep/tensor/staging_pool.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace lockstep::cuda {
namespace {

void* get_from_device(size_t bytes) {
  require_no_capture("memory is asked of the driver");
  bind_device();
  void* memory = nullptr;
  if (cudaMalloc(&memory, bytes) == cudaSuccess) return memory;
  cudaGetLastError();  // an allocation that failed must not fail the next launch too
  return nullptr;
}

void give_to_device(void* memory) {
  bind_device();
  cudaFree(memory);
}

void zero(void* memory, size_t bytes) {
  check(!LiveNumbers::refreshing(), "cuda: memory is cleared in a refresh");
  check_cuda(cudaMemsetAsync(memory, 0, bytes, current_native_stream()), "cudaMemset");
}

const void* current_stream_address() { return &cuda_streams().current(); }

void* get_page_locked(size_t bytes) {
  bind_device();
  void* memory = nullptr;
  if (cudaHostAlloc(&memory, bytes, cudaHostAllocDefault) == cudaSuccess) return memory;
  cudaGetLastError();
  return nullptr;
}

bool on_host(const void* memory) {
  cudaPointerAttributes attributes{};
  check_cuda(cudaPointerGetAttributes(&attributes, memory), "cudaPointerGetAttributes");
  return attributes.type == cudaMemoryTypeUnregistered || attributes.type == cudaMemoryTypeHost;
}

/// Host to device. The caller goes on once its memory has been read into page-locked memory; the
/// device fetches it from there when its stream comes to it.
void upload(std::byte* to, const std::byte* from, size_t bytes) {
  constexpr size_t kMostAtOnce = size_t{32} << 20;  // so that weights need no second copy in memory
  static auto* pool = new StagingPool(get_page_locked);
  Stream& stream = cuda_streams().current();
  for (size_t done = 0; done < bytes;) {
    const size_t part = std::min(bytes - done, kMostAtOnce);
    const StagingPool::Block block = pool->take(part);
    std::memcpy(block.memory, from + done, part);
    check_cuda(cudaMemcpyAsync(to + done, block.memory, part, cudaMemcpyHostToDevice,
                               native_stream(stream)),
               "cudaMemcpyAsync");
    pool->give(block, stream.record());
    done += part;
  }
}

void copy(void* to, const void* from, size_t bytes) {
  if (bytes == 0) return;
  check(!LiveNumbers::refreshing(), "cuda: memory is copied in a refresh");
  bind_device();
  const bool to_host = on_host(to), from_host = !to_host && on_host(from);
  if (to_host || from_host) require_no_capture("the host copies to or from the device");
  if (from_host) {
    return upload(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes);
  }
  const cudaStream_t stream = current_native_stream();
  check_cuda(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), "cudaMemcpyAsync");
  // Within the device whatever changes `from` comes later on the stream.
  if (to_host) check_cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

}  // namespace

const DeviceMemory& cuda_memory() {
  static auto* allocator =
      new CachingAllocator(get_from_device, give_to_device, current_stream_address);
  static const DeviceMemory memory{*allocator, zero, copy};
  return memory;
}

}  // namespace lockstep::cuda
