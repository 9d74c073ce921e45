// Sums and maxima over dimensions, and repetition, their opposite. f32, f64, bf16. Sums of one
// shape have the same bits for any number of threads.
#pragma once

#include "lockstep/tensor/dest.h"
#include "lockstep/tensor/tensor.h"

#include <span>
#include <vector>

namespace lockstep {

struct ReduceKernels {
  void (&sum_to)(const Tensor& x, double factor, const Dest& y);
  void (&broadcast_to)(const Tensor& x, double factor, const Dest& y);
  // x is [outer, extent, inner]; the others [outer, inner].
  void (&max)(const Tensor& x, Tensor& values, Tensor& indices);
  void (&max_backward)(const Tensor& grad, const Tensor& indices, const Dest& grad_x);
  void (&sum_of_squares)(const Tensor& x, Tensor& total);
  void (&scale_and_check)(double factor, Tensor& x, Tensor& finite);
  void (&all_finite)(const Tensor& x, Tensor& finite);
};

namespace ops {

/// `shape` with each of `dims` (negative: from the end) made 1. Throws ArgumentError for one that
/// does not exist or is named twice.
Shape reduced_shape(const Shape& shape, const std::vector<int>& dims, const char* op);
/// `shape` without `dims`.
Shape without_dims(const Shape& shape, const std::vector<int>& dims);

/// y (+)= factor * x summed over the dimensions in which y's shape can be repeated to x's: the
/// gradient of repetition, and so of a bias: sum_to(grad [N, C], 1, bias [C]).
void sum_to(const Tensor& x, double factor, const Dest& y);
/// y (+)= factor * x, repeated to y's shape.
void broadcast_to(const Tensor& x, double factor, const Dest& y);

/// The sum over `dims`, which stay as extents of 1 with `keepdim`. Without dimensions to sum over:
/// a copy.
Tensor sum(const Tensor& x, const std::vector<int>& dims, bool keepdim = false);
/// Of all elements: shape [].
Tensor sum(const Tensor& x);

/// total = the sum of the squares of all elements of x, added up in f64; `total` is one f64
/// element. Of a NaN: NaN.
void sum_of_squares(const Tensor& x, Tensor& total);

/// x *= factor, and whether every product is finite: in the one pass over memory that scaling is.
/// Where there is none (a factor of 1), and on a device that would have to be waited for, nobody
/// looks, and the answer is yes.
bool scale_and_check(Tensor& x, double factor);
/// Whether every element is finite. Reads all of x.
bool all_finite(const Tensor& x);
/// The same as an i32 [1], 0 or 1, where x is: nobody waits for it.
Tensor finite_flag(const Tensor& x);
/// Whether every element of all of them is finite; a device is waited for once.
bool all_finite(std::span<const Tensor> tensors);

struct MaxResult {
  Tensor values;
  Tensor indices;  // i64: positions in the dimension; of equal values the first; of NaNs, which
                   // win, the first
};
/// The largest value along `dim`, whose extent must not be 0.
MaxResult max(const Tensor& x, int dim, bool keepdim = false);
/// grad_x (+)= grad where the maximum was. `grad` and `indices` as max gave them, with or without
/// the dimension.
void max_backward(const Tensor& grad, const Tensor& indices, int dim, const Dest& grad_x);

}  // namespace ops
}  // namespace lockstep
