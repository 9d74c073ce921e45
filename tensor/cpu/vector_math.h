// Functions of one float without a branch or a call, so that a loop over them is vector code. For
// double the standard library's.
#pragma once

#include "lockstep/tensor/cpu/rows.h"

#include <cmath>

namespace lockstep::cpu {

template <class C>
C sigmoid_of(C x) {
  return C(1) / (C(1) + exp_of(-x));
}

/// Cephes' tanhf: a polynomial where 1 - 2 / (e^2x + 1) would cancel.
inline float tanh_of(float x) {
  const float size = std::abs(x);
  const float z = x * x;
  float p = -5.70498872745e-3f;
  p = p * z + 2.06390887954e-2f;
  p = p * z - 5.37397155531e-2f;
  p = p * z + 1.33314422036e-1f;
  p = p * z - 3.33332819422e-1f;
  const float small = p * z * x + x;
  const float large = std::copysign(1.0f - 2.0f / (exp_of(2.0f * size) + 1.0f), x);
  return size < 0.625f ? small : large;
}
inline double tanh_of(double x) { return std::tanh(x); }

/// The normal distribution function, Phi(x) = erfc(-x / sqrt 2) / 2. erfc by the Chebyshev fit of
/// Press et al., "Numerical recipes in C", 1992, section 6.2, whose relative error is under 1.2e-7:
/// unlike 1 + erf it does not cancel for negative x.
inline float normal_cdf_of(float x) {
  const float z = std::abs(x) * 0.707106781f;
  const float t = 1.0f / (1.0f + 0.5f * z);
  float p = 0.17087277f;
  p = p * t - 0.82215223f;
  p = p * t + 1.48851587f;
  p = p * t - 1.13520398f;
  p = p * t + 0.27886807f;
  p = p * t - 0.18628806f;
  p = p * t + 0.09678418f;
  p = p * t + 0.37409196f;
  p = p * t + 1.00002368f;
  p = p * t - 1.26551223f;
  const float half = 0.5f * t * exp_of(p - z * z);
  return x < 0.0f ? half : 1.0f - half;
}
inline double normal_cdf_of(double x) { return 0.5 * std::erfc(-x * 0.70710678118654752440); }

/// log(1 + e^x) without overflow or cancellation.
template <class C>
C softplus_of(C x) {
  return std::max(x, C(0)) + std::log1p(exp_of(-std::abs(x)));
}

}  // namespace lockstep::cpu
