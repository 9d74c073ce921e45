// Philox on many counter blocks side by side, as vector code. Without the pragmas g++ unrolls the
// loops over lanes before it vectorises, and then does not.
#pragma once

#include "lockstep/tensor/random.h"

#include <array>
#include <cstdint>

namespace lockstep::cpu {

inline constexpr int64_t kPhiloxLanes = 16;
/// The numbers 64 k ... 64 k + 63 of a range.
using PhiloxNumbers = std::array<uint32_t, 4 * kPhiloxLanes>;

/// As range.bits(4 * block + i) for i = 0 .. 63.
inline void philox_lanes(const PhiloxRange& range, int64_t block, PhiloxNumbers& out) {
  std::array<std::array<uint32_t, kPhiloxLanes>, 4> c;
#pragma omp simd
  for (size_t j = 0; j < kPhiloxLanes; ++j) {
    const uint64_t counter = range.first_block + static_cast<uint64_t>(block) + j;
    c[0][j] = static_cast<uint32_t>(counter);
    c[1][j] = static_cast<uint32_t>(counter >> 32);
    c[2][j] = 0;
    c[3][j] = 0;
  }
  uint32_t k0 = static_cast<uint32_t>(range.seed);
  uint32_t k1 = static_cast<uint32_t>(range.seed >> 32);
  for (int round = 0; round < 10; ++round) {
#pragma omp simd
    for (size_t j = 0; j < kPhiloxLanes; ++j) {
      const uint64_t p0 = uint64_t{0xD2511F53u} * c[0][j];
      const uint64_t p1 = uint64_t{0xCD9E8D57u} * c[2][j];
      c[0][j] = static_cast<uint32_t>(p1 >> 32) ^ c[1][j] ^ k0;
      c[1][j] = static_cast<uint32_t>(p1);
      c[2][j] = static_cast<uint32_t>(p0 >> 32) ^ c[3][j] ^ k1;
      c[3][j] = static_cast<uint32_t>(p0);
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
#pragma omp simd
  for (size_t j = 0; j < kPhiloxLanes; ++j) {
    out[4 * j] = c[0][j];
    out[4 * j + 1] = c[1][j];
    out[4 * j + 2] = c[2][j];
    out[4 * j + 3] = c[3][j];
  }
}

}  // namespace lockstep::cpu
