// Matrix products. Transposed operands are read where they lie; nothing is copied.
#pragma once

#include "lockstep/tensor/dest.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep {

struct MatmulOptions {
  bool transpose_a = false;  // the last two dimensions of a are swapped
  bool transpose_b = false;
};

/// The extents of a product of `batch` pairs of matrices, op(a) [m, k] times op(b) [k, n].
struct MatmulProblem {
  int64_t batch = 1;
  int64_t m = 0, n = 0, k = 0;
  bool transpose_a = false;  // a lies as [k, m]
  bool transpose_b = false;  // b lies as [n, k]
  bool batched_a = false;    // false: one matrix serves the whole batch
  bool batched_b = false;
};

/// That of a linear layer's weight: grad_y^T x, from [rows, out] and [rows, in].
inline MatmulProblem weight_gradient(const Tensor& grad_y, const Tensor& x) {
  return {.m = grad_y.dim(1), .n = x.dim(1), .k = x.dim(0), .transpose_a = true};
}

struct MatmulKernels {
  /// out [batch, m, n] (+)= op(a) op(b) + bias [n]; bias may be undefined. All extents are positive
  /// but k, which may be 0. One dtype, but that out and bias may each be f32 when a and b are bf16.
  void (&matmul)(const MatmulProblem& problem, const Tensor& a, const Tensor& b, const Tensor& bias,
                 const Dest& out);
  /// out [n] (+)= the sum over the rows of x [m, n]; out in x's dtype, or f32 when x is bf16.
  void (&sum_rows)(const Tensor& x, const Dest& out);
  /// grad_weight [out, in] (+)= grad_y^T x and grad_bias [out] (+)= the sum over the rows of
  /// grad_y; grad_y [rows, out] and x [rows, in] of one dtype, the gradients as for matmul and
  /// sum_rows. No extent is 0 but that of the rows.
  void (&linear_backward_weight)(const Tensor& grad_y, const Tensor& x, const Dest& grad_weight,
                                 const Dest& grad_bias);
};

namespace ops {

/// op(a) op(b): a is [..., m, k] ([..., k, m] if transposed), b is [..., k, n] ([..., n, k]), the
/// result [..., m, n]. The leading dimensions are equal, or one operand has none and serves all of
/// the other's. f32, f64 or bf16, both the same; bf16 is added up in f32.
Tensor matmul(const Tensor& a, const Tensor& b, MatmulOptions options = {});
/// The same product written (or added) into `out`. When `out` is a single matrix [m, n] and an
/// operand is not, the products are summed over the leading dimensions: the gradient of an operand
/// that served a whole batch. `out` has the operands' dtype, or is f32 when they are bf16.
void matmul(const Tensor& a, const Tensor& b, MatmulOptions options, const Dest& out);

/// x weight^T + bias: x [..., in], weight [out, in], bias [out] or undefined; the result is [...,
/// out]. One dtype, but that the bias may be f32 when x is bf16.
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias);

/// out [n] (+)= the sum of x [..., n] over all but the last dimension: the gradient of a bias.
/// `out` has x's dtype, or is f32 when that is bf16.
void sum_rows(const Tensor& x, const Dest& out);

/// What linear's weight and bias get from the gradient grad_y [rows, out] of its result on x [rows,
/// in]: matmul of grad_y^T and x into grad_weight [out, in], and sum_rows of grad_y into grad_bias
/// [out], in one pass over grad_y where the device can.
void linear_backward_weight(const Tensor& grad_y, const Tensor& x, const Dest& grad_weight,
                            const Dest& grad_bias);

/// Whether this processor multiplies bf16 faster than f32. Where it does not, bf16 products and
/// convolutions are right but no faster.
bool has_fast_bf16();

}  // namespace ops
}  // namespace lockstep
