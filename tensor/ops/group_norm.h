// Normalisation of each sample by itself: layer normalisation (Ba, Kiros and Hinton, "Layer
// normalization", 2016) and group normalisation (Wu and He, "Group normalization", ECCV 2018). The
// first is the second with one group and one position a sample.
#pragma once

#include "lockstep/tensor/dest.h"
#include "lockstep/tensor/ops/dropout.h"
#include "lockstep/tensor/tensor.h"

#include <cstdint>

namespace lockstep {

/// A tensor seen as [samples, positions, channels]. Statistics are taken over all positions of a
/// sample and the channels / groups neighbouring channels of a group.
struct GroupNormExtents {
  int64_t samples, positions, channels, groups;
};

struct GroupNormKernels {
  /// weight and bias [channels], mean and rstd [samples, groups].
  void (&forward)(const Tensor& x, GroupNormExtents extents, const Tensor& weight,
                  const Tensor& bias, double eps, Tensor& y, Tensor& mean, Tensor& rstd);
  /// grad_x.out and sums [2, channels] may be undefined.
  void (&backward)(const Tensor& grad_y, const Tensor& x, GroupNormExtents extents,
                   const Tensor& weight, const Tensor& mean, const Tensor& rstd, const Dest& grad_x,
                   Tensor& sums);
  /// sum = residual + dropout(x + x_bias) and y, its rows normalised; [rows, width] all four, the
  /// vectors [width], mean and rstd [rows]. x_bias may be undefined; sum and y may be one tensor.
  void (&add_forward)(const Tensor& x, const Tensor& x_bias, const Tensor& residual,
                      const DropoutMask& mask, const Tensor& weight, const Tensor& bias, double eps,
                      Tensor& sum, Tensor& y, Tensor& mean, Tensor& rstd);
  /// sums [2 or 3, width]; it and the destinations may be undefined.
  void (&add_backward)(const Tensor& grad_y, const Tensor& sum, const DropoutMask& mask,
                       const Tensor& weight, const Tensor& mean, const Tensor& rstd,
                       const Dest& grad_x, const Dest& grad_residual, Tensor& sums);
};

namespace ops {

/// What layer_norm over the trailing dimensions `normalized` of x is: each row a sample. Throws
/// ArgumentError when x does not end in them.
GroupNormExtents layer_norm_extents(const Shape& x, const Shape& normalized);
/// x [N, ..., C] in `groups` groups of channels, whose number must divide C.
GroupNormExtents group_norm_extents(const Shape& x, int64_t groups);

struct GroupNormResult {
  Tensor y;
  Tensor mean;  // [samples, groups], f32 for f32 and bf16 x, f64 for f64
  Tensor rstd;  // of the same: 1 / sqrt(variance + eps), the variance biased
};
/// (x - mean) * rstd * weight + bias; weight and bias hold `channels` elements in x's dtype or
/// that of the statistics, or are undefined: ones and zeros. f32, f64, bf16.
GroupNormResult group_norm(const Tensor& x, GroupNormExtents extents, const Tensor& weight,
                           const Tensor& bias, double eps);
/// grad_x (unless grad_x.out is undefined) and, unless `sums` is undefined, the gradients of weight
/// and bias as its two rows, [2, channels] in the dtype of the statistics: one pass over memory.
void group_norm_backward(const Tensor& grad_y, const Tensor& x, GroupNormExtents extents,
                         const Tensor& weight, const Tensor& mean, const Tensor& rstd,
                         const Dest& grad_x, Tensor& sums);

struct AddNormResult {
  Tensor sum = {};   // residual + dropout(x + x_bias), for backward; undefined: not kept
  Tensor y = {};     // its rows normalised
  Tensor mean = {};  // [rows], f32 for f32 and bf16 x, f64 for f64
  Tensor rstd = {};  // of the same
};
/// layer_norm(residual + dropout(x + x_bias)) over rows of `width` elements in one pass over
/// memory; x and residual of one shape and dtype, the vectors as for group_norm, x_bias undefined:
/// none. An element of the sum is rounded to x's dtype once.
AddNormResult dropout_add_layer_norm(const Tensor& x, const Tensor& residual, int64_t width,
                                     const DropoutMask& mask, const Tensor& x_bias,
                                     const Tensor& weight, const Tensor& bias, double eps,
                                     bool keep_sum);
/// What reaches x and the residual (either out may be undefined; not the same memory), and, unless
/// `sums` is undefined, the gradients of weight, bias and (with a third row) x_bias as its rows,
/// [2 or 3, width] in the dtype of the statistics.
void dropout_add_layer_norm_backward(const Tensor& grad_y, const AddNormResult& forward,
                                     int64_t width, const DropoutMask& mask, const Tensor& weight,
                                     const Dest& grad_x, const Dest& grad_residual, Tensor& sums);

}  // namespace ops
}  // namespace lockstep
