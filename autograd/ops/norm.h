// Normalisation layers' functions.
#pragma once

#include "lockstep/autograd/ops/norm_exchange.h"
#include "lockstep/autograd/variable.h"
#include "lockstep/tensor/random.h"

#include <memory>

namespace lockstep {

struct BatchNormOptions {
  /// Normalise by the batch's statistics and update the running ones; otherwise by the running
  /// ones.
  bool training = true;
  /// Share of the batch in the running statistics.
  double momentum = 0.1;
  double eps = 1e-5;
  /// In training the batch is what all ranks hold together, and its statistics are the same on
  /// each; null: what this rank holds. The graph shares it.
  std::shared_ptr<NormExchange> exchange = nullptr;
};

/// (x - mean) / sqrt(var + eps) * weight + bias over each channel of x [..., C]; weight, bias and
/// the running statistics are [C], f32 for f32 and bf16 x, f64 for f64. In training var is the
/// batch's biased variance, and the running statistics change in place: running += momentum *
/// (batch - running), with the unbiased variance (Ioffe and Szegedy, ICML 2015, algorithm 2).
/// With an exchange each rank's gradient of x is that of the sum of all ranks' losses, while weight
/// and bias get this rank's own part of theirs, which data parallelism adds up.
/// Throws ArgumentError for shapes and dtypes that do not fit, and in training for fewer than two
/// values a channel (with an exchange: on all ranks together, and then on every rank).
Variable batch_norm(const Variable& x, const Variable& weight, const Variable& bias,
                    Tensor running_mean, Tensor running_var, const BatchNormOptions& options);

/// relu(batch_norm(x) + residual) without the passes over memory in between; `residual` has x's
/// shape and dtype, or is undefined.
Variable batch_norm_relu(const Variable& x, const Variable& weight, const Variable& bias,
                         Tensor running_mean, Tensor running_var, const BatchNormOptions& options,
                         const Variable& residual = {});

/// (x - mean) / sqrt(var + eps) * weight + bias, mean and biased variance of each row over the
/// trailing dimensions `normalized` of x (Ba, Kiros and Hinton, 2016). weight and bias have the
/// shape `normalized` or are undefined (ones and zeros), in x's dtype or, for bf16, f32. Backward
/// keeps x, means and deviations and is one pass. ArgumentError when x does not end in
/// `normalized`.
Variable layer_norm(const Variable& x, const Shape& normalized, const Variable& weight = {},
                    const Variable& bias = {}, double eps = 1e-5);

struct DropoutAddOptions {
  double dropout = 0;        // probability that an element is set to 0, as for dropout()
  Generator* rng = nullptr;  // from which dropout draws
  /// Added to x first; of the shape `normalized`, in x's dtype or, for bf16, f32.
  Variable x_bias = {};
  double eps = 1e-5;
};

/// layer_norm(residual + dropout(x + x_bias)): what ends each half of a post-LN transformer's layer
/// (Vaswani et al., "Attention is all you need", NIPS 2017), without the passes over memory in
/// between. Numbers are drawn as by dropout(); backward draws them again, and keeps the sum, means
/// and deviations. In f32 and f64 result and gradients have the bits of the ops one by one; in bf16
/// the sum is rounded once instead of after each. x and residual have one shape and dtype.
/// ArgumentError for what does not fit, and for dropout without `rng`.
Variable dropout_add_layer_norm(const Variable& x, const Variable& residual,
                                const Shape& normalized, const Variable& weight = {},
                                const Variable& bias = {}, const DropoutAddOptions& options = {});

/// layer_norm with statistics of each sample of x [N, ..., C] over all its positions and the C /
/// groups channels of a group (Wu and He, 2018); weight and bias [C].
Variable group_norm(const Variable& x, int64_t groups, const Variable& weight = {},
                    const Variable& bias = {}, double eps = 1e-5);

}  // namespace lockstep
