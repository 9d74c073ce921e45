// What kernels over rows share: the team of threads that takes a row, sums that the team agrees on,
// and reading and writing a row 16 bytes at a time. Included by kernel sources alone.
#pragma once

#include "lockstep/tensor/cuda/launch.h"
#include "lockstep/tensor/cuda/vector.h"
#include "lockstep/tensor/dtype.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace lockstep::LOCKSTEP_GPU {

inline constexpr int kWarp = 32;
inline constexpr unsigned kFullWarp = 0xffffffffu;
inline constexpr int kBlockWarps = static_cast<int>(kBlock) / kWarp;

/// The largest of some numbers and the sum of e^(number - max), in one pass ("online": Milakov and
/// Gimelshein, "Online normalizer calculation for softmax", 2018). A NaN or +inf makes the sum NaN.
template <class C>
struct MaxSum {
  C max, sum;

  /// Of no numbers. The maximum is finite so that -inf can be added.
  static __device__ MaxSum none() { return {std::numeric_limits<C>::lowest(), C(0)}; }
  __device__ void add(C v) {
    if (v > max) {
      sum = sum * std::exp(max - v) + (C(1) + (v - v));
      max = v;
    } else {
      sum += std::exp(v - max);
    }
  }
  __device__ MaxSum operator+(const MaxSum& other) const {
    const C top = max > other.max ? max : other.max;
    return {top, sum * std::exp(max - top) + other.sum * std::exp(other.max - top)};
  }
};

/// What the lane whose number differs in `bits` passes.
template <class V>
__device__ V of_lane(V v, int bits) {
  return __shfl_xor_sync(kFullWarp, v, bits);
}
template <class C>
__device__ MaxSum<C> of_lane(const MaxSum<C>& v, int bits) {
  return {of_lane(v.max, bits), of_lane(v.sum, bits)};
}

/// The threads of a block of kBlock that share a row: one warp (kWarps = 1), or all.
template <int kWarps>
struct Team {
  static_assert(kWarps == 1 || kWarps == kBlockWarps);
  static constexpr int kThreads = kWarps * kWarp;

  /// The row of the team, and this thread's number in it.
  static __device__ int64_t row() {
    return int64_t{blockIdx.x} * (kBlock / kThreads) + threadIdx.x / kThreads;
  }
  static __device__ int rank() { return static_cast<int>(threadIdx.x) % kThreads; }
  static dim3 grid(int64_t rows) { return dim3(blocks_for(rows, kBlock / kThreads)); }

  /// The sum of what the threads pass; all get the same bits. Every thread of the team must call
  /// it.
  template <class V>
  static __device__ V sum(V v) {
    for (int bits = kWarp / 2; bits > 0; bits /= 2) v = v + of_lane(v, bits);
    if constexpr (kWarps > 1) {
      LOCKSTEP_SHARED(V, of_warp, [kWarps]);
      if (threadIdx.x % kWarp == 0) of_warp[threadIdx.x / kWarp] = v;
      __syncthreads();
      v = of_warp[0];
      for (int w = 1; w < kWarps; ++w) v = v + of_warp[w];
      __syncthreads();
    }
    return v;
  }
};

/// Calls fn(Team) with the one for rows of `size` elements: a block where a warp would take long.
template <class Fn>
void with_team(int64_t size, Fn&& fn) {
  size > 2048 ? fn(Team<kBlockWarps>{}) : fn(Team<1>{});
}

/// Elements in 16 bytes.
template <class T>
inline constexpr int kPack = kWidth<T>;

/// Elements before the first one at a multiple of 16 bytes; all of them when the operands do not
/// have theirs at the same places.
template <class T, class... More>
__device__ int64_t unaligned(int64_t size, const T* x, const More*... more) {
  const auto past = [](const void* p) { return reinterpret_cast<uintptr_t>(p) % 16; };
  if (((past(more) != past(x)) || ...)) return size;
  const auto head = static_cast<int64_t>((16 - past(x)) % 16 / sizeof(T));
  return head < size ? head : size;
}

/// Calls fn(i, x[i]...) for a thread's share of a row, its values in the type to compute in.
template <class Team, class Fn, class T, class... More>
__device__ void read_row(int64_t size, Fn&& fn, const T* x, const More*... more) {
  using C = compute_t<T>;
  const int64_t head = unaligned(size, x, more...);
  const int64_t body = head + (size - head) / kPack<T> * kPack<T>;
  for (int64_t i = Team::rank(); i < head; i += Team::kThreads)
    fn(i, static_cast<C>(x[i]), static_cast<C>(more[i])...);
  const auto all = [&](int64_t i, const auto&... packs) {
#pragma unroll
    for (int j = 0; j < kPack<T>; ++j) fn(i + j, static_cast<C>(packs.at[j])...);
  };
  for (int64_t i = head + Team::rank() * kPack<T>; i < body; i += Team::kThreads * kPack<T>)
    all(i, load<kPack<T>>(x + i), load<kPack<T>>(more + i)...);
  for (int64_t i = body + Team::rank(); i < size; i += Team::kThreads)
    fn(i, static_cast<C>(x[i]), static_cast<C>(more[i])...);
}

/// out[i] (+)= fn(i, x[i]...) for a thread's share of a row. `out` may be one of the others.
template <class Team, class Fn, class T, class... In>
__device__ void map_row(int64_t size, bool accumulate, T* out, Fn&& fn, const In*... x) {
  using C = compute_t<T>;
  const auto one = [&](int64_t i) {
    const C v = fn(i, static_cast<C>(x[i])...);
    out[i] = T(accumulate ? static_cast<C>(out[i]) + v : v);
  };
  const int64_t head = unaligned(size, out, x...);
  const int64_t body = head + (size - head) / kPack<T> * kPack<T>;
  for (int64_t i = Team::rank(); i < head; i += Team::kThreads) one(i);
  const auto all = [&](int64_t i, const auto&... packs) {
    Pack<T, kPack<T>> result;
    if (accumulate) result = load<kPack<T>>(out + i);
#pragma unroll
    for (int j = 0; j < kPack<T>; ++j) {
      const C v = fn(i + j, static_cast<C>(packs.at[j])...);
      result.at[j] = T(accumulate ? static_cast<C>(result.at[j]) + v : v);
    }
    store(out + i, result);
  };
  for (int64_t i = head + Team::rank() * kPack<T>; i < body; i += Team::kThreads * kPack<T>)
    all(i, load<kPack<T>>(x + i)...);
  for (int64_t i = body + Team::rank(); i < size; i += Team::kThreads) one(i);
}

}  // namespace lockstep::LOCKSTEP_GPU
