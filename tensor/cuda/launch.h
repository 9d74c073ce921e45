// How a kernel is launched. A .cu file is compiled twice: by nvcc into lockstep::cuda, and by g++
// into lockstep::simt, where the same source runs on the CPU (simt/simt.h) so that it can be tested
// without a GPU. Kernel sources therefore use launch() and LOCKSTEP_SHARED instead of <<<>>> and
// __shared__, and everything in them is in namespace LOCKSTEP_GPU.
#pragma once

#include "lockstep/tensor/live.h"

#include <cstdint>
#include <type_traits>

#ifdef __CUDACC__
#include "lockstep/tensor/cuda/runtime.h"
#define LOCKSTEP_GPU cuda
/// A shared array: LOCKSTEP_SHARED(float, tile, [16][17]);
#define LOCKSTEP_SHARED(type, name, extent) __shared__ type name extent
#else
#include "lockstep/tensor/cuda/simt/device.h"
#include "lockstep/tensor/cuda/simt/simt.h"
#define LOCKSTEP_GPU simt
#endif

namespace lockstep::LOCKSTEP_GPU {

/// Starts `kernel` on the calling thread's current stream; nothing in a refresh (live.h).
template <class... Params>
void launch(void (*kernel)(Params...), dim3 grid, dim3 block,
            std::type_identity_t<Params>... args) {
  if (LiveNumbers::refreshing()) return;
#ifdef __CUDACC__
  kernel<<<grid, block, 0, current_native_stream()>>>(args...);
  check_cuda(cudaGetLastError(), "kernel launch");
#else
  enqueue([=] { run(grid, block, 0, [=] { kernel(args...); }); });
#endif
}

#ifdef __CUDACC__
/// A GPU ends the program for an access that is not aligned; the shim says where.
__device__ inline void require_aligned(const void*, size_t) {}
#endif

inline constexpr int64_t kBlock = 256;

inline unsigned blocks_for(int64_t count, int64_t per_block) {
  return static_cast<unsigned>((count + per_block - 1) / per_block);
}

template <class Body>
__global__ void for_each_kernel(int64_t count, Body body) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) body(i);
}

/// body(i) for each i in [0, count), in any order. Body is a struct with a __device__ call
/// operator.
template <class Body>
void for_each(int64_t count, Body body) {
  // 4096 blocks fill the largest GPU several times over; each thread walks on with that stride.
  const unsigned grid = blocks_for(count, kBlock) < 4096 ? blocks_for(count, kBlock) : 4096;
  if (count > 0) launch(for_each_kernel<Body>, dim3(grid), dim3(kBlock), count, body);
}

}  // namespace lockstep::LOCKSTEP_GPU
