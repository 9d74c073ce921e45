// Reductions and exponentials over contiguous rows, written so that the compiler turns them into
// vector code. Sums are in compute_t<T> in an order that depends on the row's length alone.
#pragma once

#include "lockstep/tensor/cpu/parallel.h"
#include "lockstep/tensor/dtype.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace lockstep::cpu {

/// e^x within 2 units in the last place; 0 below -86.6, where the result would be under 2^-125;
/// infinite above 88.72; NaN stays. Range reduction by powers of two and the polynomial of Cephes'
/// expf, without a branch or a call.
inline float exp_of(float x) {
  constexpr float kRound =
      12582912.0f;  // 1.5 * 2^23: adding it leaves the nearest integer in the low bits
  const float shifted = x * 1.44269504f + kRound;
  const float n = shifted - kRound;
  const float r = (x - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  const float y = p * r * r + r + 1.0f;
  // 2^(n-1), so that n = 128 still fits, times two.
  const float power = std::bit_cast<float>((std::bit_cast<uint32_t>(shifted) << 23) + 0x3f000000u);
  const float finite = x < -86.6f ? 0.0f : 2.0f * y * power;
  return x > 88.7228f ? std::numeric_limits<float>::infinity() : finite;
}
inline double exp_of(double x) { return std::exp(x); }

/// The largest element; a NaN may be passed over.
template <class T>
compute_t<T> row_max(const T* x, int64_t count) {
  using C = compute_t<T>;
  constexpr int64_t kLanes = 16;
  C best[kLanes];
  std::fill(best, best + kLanes, -std::numeric_limits<C>::infinity());
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t l = 0; l < kLanes; ++l) {
      const C v = static_cast<C>(x[i + l]);
      best[l] = v > best[l] ? v : best[l];
    }
  }
  for (; i < count; ++i) best[0] = std::max(best[0], static_cast<C>(x[i]));
  return *std::max_element(best, best + kLanes);
}

/// The sum of term(i) for i in [0, count).
template <class C, class Term>
C row_sum(int64_t count, Term&& term) {
  C sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < count; ++i) sum += term(i);
  return sum;
}

/// max + log(sum of e^(x - max)); infinite or NaN when the row holds such.
template <class T>
compute_t<T> row_logsumexp(const T* x, int64_t count) {
  using C = compute_t<T>;
  const C top = row_max(x, count);
  return top +
         std::log(row_sum<C>(count, [=](int64_t i) { return exp_of(static_cast<C>(x[i]) - top); }));
}

/// The least number of rows of `size` elements worth a thread, for work as heavy as an exponential.
inline int64_t row_grain(int64_t size) {
  return std::max<int64_t>(1, kGrain / 4 / std::max<int64_t>(size, 1));
}

}  // namespace lockstep::cpu
