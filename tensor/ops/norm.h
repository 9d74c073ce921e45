// Batch normalisation over all dimensions but the last (Ioffe and Szegedy, "Batch Normalization",
// ICML 2015), in the steps that it is made of, so that statistics can be shared between ranks in
// between.
//
// Per-channel tensors ([C]) are f32 for f32 and bf16 images, f64 for f64.
#pragma once

#include "lockstep/tensor/dest.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep {

/// What the per-channel step of batch normalisation and the activation after it read.
struct BatchNormInputs {
  const Tensor& x;       // [..., C]
  const Tensor& mean;    // [C]
  const Tensor& invstd;  // [C], 1 / sqrt(variance + eps)
};

struct NormKernels {
  void (&moments)(const Tensor& x, Tensor& mean, Tensor& variance);
  void (&invstd)(const Tensor& variance, double eps, Tensor& invstd);
  void (&update_running)(const Tensor& batch, double momentum, double factor, Tensor& running);
  void (&apply)(const BatchNormInputs& in, const Tensor& weight, const Tensor& bias,
                const Tensor& residual, bool relu, Tensor& y);
  void (&backward_sums)(const Tensor& grad_y, const Tensor& y, const BatchNormInputs& in,
                        Tensor& sum_grad, Tensor& sum_grad_xhat, const Dest& grad_residual);
  void (&backward_data)(const Tensor& grad_y, const Tensor& y, const BatchNormInputs& in,
                        const Tensor& weight, const Tensor& sum_grad, const Tensor& sum_grad_xhat,
                        double count, const Dest& grad_x);
};

namespace ops {

/// Mean and biased variance of each channel of x [..., C]. Accurate also when the mean is large
/// beside the deviation.
void batch_norm_moments(const Tensor& x, Tensor& mean, Tensor& variance);
/// 1 / sqrt(variance + eps).
Tensor batch_norm_invstd(const Tensor& variance, double eps);
/// running += momentum * (factor * batch - running). The factor makes a variance unbiased: n / (n -
/// 1).
void batch_norm_update_running(const Tensor& batch, double momentum, double factor,
                               Tensor& running);
/// (x - mean) * invstd * weight + bias, then + residual unless that is undefined, then max(., 0) if
/// `relu`.
Tensor batch_norm_apply(const BatchNormInputs& in, const Tensor& weight, const Tensor& bias,
                        const Tensor& residual, bool relu);
/// With g = grad_y where y > 0, else 0 (g = grad_y when y is undefined: no relu was applied): the
/// sums over each channel of g (the gradient of bias) and of g * (x - mean) * invstd (the gradient
/// of weight). Unless grad_residual.out is undefined, g goes there.
void batch_norm_backward_sums(const Tensor& grad_y, const Tensor& y, const BatchNormInputs& in,
                              Tensor& sum_grad, Tensor& sum_grad_xhat, const Dest& grad_residual);
/// The gradient of x from those sums over `count` rows, which may lie on many ranks; undefined sums
/// mean that mean and invstd did not depend on x (evaluation).
void batch_norm_backward_data(const Tensor& grad_y, const Tensor& y, const BatchNormInputs& in,
                              const Tensor& weight, const Tensor& sum_grad,
                              const Tensor& sum_grad_xhat, double count, const Dest& grad_x);

}  // namespace ops
}  // namespace lockstep
