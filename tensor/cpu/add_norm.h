// The entries of GroupNormKernels for a sum that is normalised, which have a file of their own.
#pragma once

#include "lockstep/tensor/ops/group_norm.h"

namespace lockstep::cpu {

void add_norm(const Tensor& x, const Tensor& x_bias, const Tensor& residual,
              const DropoutMask& mask, const Tensor& weight, const Tensor& bias, double eps,
              Tensor& sum, Tensor& y, Tensor& mean, Tensor& rstd);
void add_norm_backward(const Tensor& grad_y, const Tensor& sum, const DropoutMask& mask,
                       const Tensor& weight, const Tensor& mean, const Tensor& rstd,
                       const Dest& grad_x, const Dest& grad_residual, Tensor& sums);

}  // namespace lockstep::cpu
