// Functions of one number, applied to each element.
#pragma once

#include "lockstep/tensor/dest.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep {

enum class UnaryOp {
  kGelu,      // x * Phi(x), Phi the normal distribution function
  kGeluTanh,  // its approximation by tanh
  kSigmoid,   // 1 / (1 + e^-x)
  kTanh,
  kSilu,  // x * sigmoid(x)
  kLog,
  kExp,
  kSqrt,
};

struct UnaryKernels {
  void (&forward)(UnaryOp op, const Tensor& x, Tensor& y);
  void (&backward)(UnaryOp op, const Tensor& grad_y, const Tensor& saved, const Dest& grad_x);
};

namespace ops {

/// op(x), elementwise. f32, f64, bf16. In f32 a result is within 2^-18 of its size, that of gelu
/// for x > -6 (below, it is under 1e-8), and an exponential below 2^-125 is 0. Of NaN: NaN.
Tensor unary(UnaryOp op, const Tensor& x);
/// Whether unary_backward wants the result (sigmoid, tanh, exp, sqrt) rather than the argument.
bool saves_result(UnaryOp op);
/// grad_x (+)= grad_y * op'(x), from `saved`: x or unary(op, x), as saves_result says. All three of
/// one shape and dtype.
void unary_backward(UnaryOp op, const Tensor& grad_y, const Tensor& saved, const Dest& grad_x);

}  // namespace ops
}  // namespace lockstep
