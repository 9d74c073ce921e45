// Convolution of f32 and bf16 by oneDNN.
//
// Images stay NHWC. Weights are reordered in every call to the layout that the kernel wants, and
// their gradient back: beside the convolution that costs little, and the weights keep one layout
// everywhere else.
#pragma once

#include "lockstep/tensor/ops/conv.h"

namespace lockstep::cpu::onednn {

/// As ConvKernels, for x in f32 or bf16. False, with nothing done, when oneDNN has no such kernel
/// on this processor (bf16 before AVX-512).
bool conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dOptions& options,
            Tensor& y);
bool conv2d_backward_data(const Tensor& grad_y, const Tensor& weight, const Conv2dOptions& options,
                          const Dest& grad_x);
bool conv2d_backward_weight(const Tensor& grad_y, const Tensor& x, const Conv2dOptions& options,
                            const Dest& grad_weight);

}  // namespace lockstep::cpu::onednn
