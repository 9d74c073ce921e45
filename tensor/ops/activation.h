// Activation functions on tensors.
#pragma once

#include "lockstep/tensor/dest.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep {

struct ActivationKernels {
  void (&relu)(const Tensor& x, Tensor& y);
  void (&relu_backward)(const Tensor& grad_y, const Tensor& y, const Dest& grad_x);
};

namespace ops {

/// max(x, 0), elementwise; NaN stays NaN. f32, f64, bf16.
Tensor relu(const Tensor& x);
/// grad_x = grad_y where y > 0, else 0; `y` is relu's result. All three of one shape.
void relu_backward(const Tensor& grad_y, const Tensor& y, const Dest& grad_x);

}  // namespace ops
}  // namespace lockstep
