// Convolution as its definition: for f64, which oneDNN does not have, and as what oneDNN is tested
// against.
#pragma once

#include "lockstep/tensor/ops/conv.h"

namespace lockstep::cpu {

/// All tensors f64; see ConvKernels.
void conv2d_reference(const Tensor& x, const Tensor& weight, const Tensor& bias,
                      const Conv2dOptions& options, Tensor& y);
void conv2d_reference_backward_data(const Tensor& grad_y, const Tensor& weight,
                                    const Conv2dOptions& options, const Dest& grad_x);
void conv2d_reference_backward_weight(const Tensor& grad_y, const Tensor& x,
                                      const Conv2dOptions& options, const Dest& grad_weight);

}  // namespace lockstep::cpu
