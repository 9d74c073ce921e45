// Arithmetic on tensors, element by element, with broadcasting as NumPy does it: shapes are aligned
// at their last dimension, and an extent of 1 (or none) is repeated. f32, f64, bf16; operands of
// one dtype and device.
#pragma once

#include "lockstep/tensor/dest.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep {

enum class BinaryOp { kAdd, kSub, kMul, kDiv };

struct ElementwiseKernels {
  void (&binary)(BinaryOp op, const Tensor& a, const Tensor& b, Tensor& y);
  void (&affine)(const Tensor& x, double factor, double offset, Tensor& y);
  void (&mul_backward)(const Tensor& grad_y, const Tensor& other, const Dest& grad);
  void (&div_backward_a)(const Tensor& grad_y, const Tensor& b, const Dest& grad_a);
  void (&div_backward_b)(const Tensor& grad_y, const Tensor& a, const Tensor& b,
                         const Dest& grad_b);
};

namespace ops {

/// The shape of a result of a and b: per dimension the extent that is not 1. Throws ArgumentError,
/// naming `op`, when two extents differ and neither is 1.
Shape broadcast_shapes(const Shape& a, const Shape& b, const char* op);
/// Whether `from` can be repeated to give `to`.
bool can_broadcast(const Shape& from, const Shape& to);

Tensor add(const Tensor& a, const Tensor& b);
Tensor sub(const Tensor& a, const Tensor& b);
Tensor mul(const Tensor& a, const Tensor& b);
Tensor div(const Tensor& a, const Tensor& b);
/// factor * x + offset.
Tensor affine(const Tensor& x, double factor, double offset);

// Gradients. Each is summed over the dimensions in which the operand was repeated, in one pass, and
// has grad.out's shape; for add and sub that is ops::sum_to (reduce.h).

/// grad (+)= grad_y * other, for the operand that was multiplied with `other`.
void mul_backward(const Tensor& grad_y, const Tensor& other, const Dest& grad);
/// grad_a (+)= grad_y / b.
void div_backward_a(const Tensor& grad_y, const Tensor& b, const Dest& grad_a);
/// grad_b (+)= -grad_y * a / b^2.
void div_backward_b(const Tensor& grad_y, const Tensor& a, const Tensor& b, const Dest& grad_b);

}  // namespace ops
}  // namespace lockstep
