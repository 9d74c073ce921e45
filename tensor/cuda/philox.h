// Numbers of a Philox stream for the elements of a pack. Included by kernel sources alone.
#pragma once

#include "lockstep/tensor/cuda/vector.h"
#include "lockstep/tensor/random.h"

namespace lockstep::LOCKSTEP_GPU {

/// The numbers i ... i + N - 1 of the range; i is a multiple of N. With N a multiple of 4 each
/// block of the stream is made once.
template <int N>
__device__ Pack<uint32_t, N> draw(const PhiloxRange& range, int64_t i) {
  constexpr int kPerBlock = N < 4 ? N : 4;  // that are wanted
  Pack<uint32_t, N> numbers;
  for (int b = 0; b < N / kPerBlock; ++b) {
    const int64_t first = i + b * kPerBlock;
    const auto words = philox4x32(range.seed, range.first() + static_cast<uint64_t>(first) / 4);
    for (int k = 0; k < kPerBlock; ++k) {
      // With N = 4 the compiler sees that the place in the block is k.
      const int place = N % 4 == 0 ? k : static_cast<int>(first % 4) + k;
      uint32_t word = words[0];
      for (int w = 1; w < 4; ++w) word = place == w ? words[static_cast<size_t>(w)] : word;
      numbers[b * kPerBlock + k] = word;
    }
  }
  return numbers;
}

/// Uniform in [0, 1), a multiple of 2^-24.
__device__ inline float unit_float(uint32_t number) {
  return static_cast<float>(number >> 8) * 0x1p-24f;
}

}  // namespace lockstep::LOCKSTEP_GPU
