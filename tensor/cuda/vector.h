// Kernels that go over memory once, element by element, 16 bytes at a time where the memory is
// aligned for that. Included by kernel sources alone.
#pragma once

#include "lockstep/tensor/cuda/launch.h"

#include <algorithm>
#include <cstdint>

namespace lockstep::LOCKSTEP_GPU {

/// N neighbours in memory, moved at once.
template <class T, int N>
struct alignas(std::min<size_t>(sizeof(T) * N, 16)) Pack {
  T at[N];
  __device__ T& operator[](int k) { return at[k]; }
  __device__ const T& operator[](int k) const { return at[k]; }
};

template <int N, class T>
__device__ Pack<T, N> load(const T* from) {
  require_aligned(from, alignof(Pack<T, N>));
  return *reinterpret_cast<const Pack<T, N>*>(from);
}

template <class T, int N>
__device__ void store(T* to, const Pack<T, N>& values) {
  require_aligned(to, alignof(Pack<T, N>));
  *reinterpret_cast<Pack<T, N>*>(to) = values;
}

/// How many elements one thread takes at once, so that the widest of these types fill 16 bytes.
template <class... T>
inline constexpr int kWidth = static_cast<int>(16 / std::max({sizeof(T)...}));

/// Whether packs of N can be loaded from all of these; null is not going to be.
template <int N, class... T>
bool aligned(const T*... memory) {
  return ((reinterpret_cast<uintptr_t>(memory) % alignof(Pack<T, N>) == 0) && ...);
}

template <int N, class Body>
__global__ void for_each_pack_kernel(int64_t count, int64_t packs, Body body) {
  const int64_t first = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  if constexpr (requires { body.start(); }) body.start();
  for (int64_t p = first; p < packs; p += step) body.template run<N>(p * N);
  for (int64_t i = packs * N + first; i < count; i += step) body.template run<1>(i);
}

/// Covers the elements [0, count), in any order, by calls of body.run<N>(i) for N elements from i,
/// a multiple of N, and of body.run<1>(i): for the rest, and for all when `packs` is false because
/// the memory is not aligned. body.start(), if there is one, comes first in each thread.
template <int N, class Body>
void for_each_pack(int64_t count, bool packs, const Body& body) {
  if (count == 0) return;
  // 4096 blocks fill the largest GPU several times over; each thread walks on with that stride.
  const int64_t blocks = std::min<int64_t>(4096, blocks_for(count, packs ? N * kBlock : kBlock));
  launch(for_each_pack_kernel<N, Body>, dim3(static_cast<unsigned>(blocks)), dim3(kBlock), count,
         packs ? count / N : 0, body);
}

}  // namespace lockstep::LOCKSTEP_GPU
