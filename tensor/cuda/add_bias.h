// A bias for a result that a library computed without one.
#pragma once

#include "lockstep/tensor/tensor.h"

namespace lockstep::cuda {
/// y [..., n] += bias [n]; y in f32, f64 or bf16, bias in y's dtype or, for bf16, f32.
void add_bias(const Tensor& bias, Tensor& y);
}  // namespace lockstep::cuda

namespace lockstep::simt {
void add_bias(const Tensor& bias, Tensor& y);
}
