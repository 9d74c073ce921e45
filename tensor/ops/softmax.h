// Softmax and its logarithm over one dimension.
#pragma once

#include "lockstep/tensor/dest.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep {

/// A tensor seen around one of its dimensions: element (o, i, n) lies at (o * size + i) * inner +
/// n.
struct SoftmaxExtents {
  int64_t outer, size, inner;
};

struct SoftmaxKernels {
  void (&softmax)(const Tensor& x, SoftmaxExtents extents, Tensor& y);
  void (&log_softmax)(const Tensor& x, SoftmaxExtents extents, Tensor& y);
  void (&softmax_backward)(const Tensor& grad_y, const Tensor& y, SoftmaxExtents extents,
                           const Dest& grad_x);
  void (&log_softmax_backward)(const Tensor& grad_y, const Tensor& y, SoftmaxExtents extents,
                               const Dest& grad_x);
};

namespace ops {

/// e^x / sum(e^x) over dimension `dim` (negative from the end), without overflow. f32, f64, bf16.
Tensor softmax(const Tensor& x, int dim);
/// The logarithm of softmax(x, dim), without its cancellation.
Tensor log_softmax(const Tensor& x, int dim);
/// grad_x (+)= y * (grad_y - sum(grad_y * y)); `y` is softmax's result.
void softmax_backward(const Tensor& grad_y, const Tensor& y, int dim, const Dest& grad_x);
/// grad_x (+)= grad_y - e^y * sum(grad_y); `y` is log_softmax's result.
void log_softmax_backward(const Tensor& grad_y, const Tensor& y, int dim, const Dest& grad_x);

}  // namespace ops
}  // namespace lockstep
