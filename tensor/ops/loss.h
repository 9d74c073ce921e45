// Losses on tensors.
#pragma once

#include "lockstep/tensor/dest.h"
#include "lockstep/tensor/tensor.h"

#include <cstdint>

namespace lockstep {

enum class Reduction { kMean, kSum };

struct CrossEntropyOptions {
  int64_t ignore_index = -100;  // rows with this target count for nothing
  double label_smoothing = 0;  // in [0, 1]: so much of the target is spread evenly over all classes
  Reduction reduction =
      Reduction::kMean;  // kMean divides by the number of rows that are not ignored
};

struct NllOptions {
  int64_t ignore_index = -100;  // rows with this target count for nothing
  Reduction reduction =
      Reduction::kMean;  // kMean divides by the number of rows that are not ignored
};

struct LossKernels {
  /// A target outside [0, C) that is not ignore_index: ops::cross_entropy. `lse` [N] is the
  /// logsumexp of each row, `scale` (a scalar) what the gradient of every row is multiplied by.
  void (&cross_entropy)(const Tensor& logits, const Tensor& targets,
                        const CrossEntropyOptions& options, Tensor& loss, Tensor& lse,
                        Tensor& scale);
  void (&cross_entropy_backward)(const Tensor& grad_loss, const Tensor& logits,
                                 const Tensor& targets, const CrossEntropyOptions& options,
                                 const Tensor& lse, const Tensor& scale, const Dest& grad_logits);
  /// Targets and `scale` as for cross_entropy.
  void (&nll)(const Tensor& log_probs, const Tensor& targets, const NllOptions& options,
              Tensor& loss, Tensor& scale);
  void (&nll_backward)(const Tensor& grad_loss, const Tensor& targets, int64_t ignore_index,
                       const Tensor& scale, const Dest& grad_log_probs);
};

namespace ops {

/// A loss and what its backward needs besides its arguments. All three are f32, or f64 for f64
/// logits.
struct CrossEntropyResult {
  Tensor loss;   // a scalar
  Tensor lse;    // [N]
  Tensor scale;  // a scalar
};

/// The cross-entropy between softmax(logits) and the targets: logits [N, C], targets i64 [N]. The
/// mean over no row (all ignored, or N = 0) is 0, so that a batch with nothing to predict does no
/// harm (PyTorch gives NaN there). A target outside [0, C) throws ArgumentError unless it is
/// ignore_index; on a GPU, which nobody waits for, it makes the loss and its row's gradient NaN.
CrossEntropyResult cross_entropy(const Tensor& logits, const Tensor& targets,
                                 const CrossEntropyOptions& options);
/// grad_logits (+)= grad_loss * scale * (softmax(logits) - smoothed one-hot targets), 0 in ignored
/// rows.
void cross_entropy_backward(const Tensor& grad_loss, const Tensor& logits, const Tensor& targets,
                            const CrossEntropyOptions& options, const Tensor& lse,
                            const Tensor& scale, const Dest& grad_logits);

struct NllResult {
  Tensor loss;   // a scalar
  Tensor scale;  // a scalar
};

/// The negative log-likelihood -log_probs[n, targets[n]] over the rows of log_probs [N, C], which
/// log_softmax gives: cross_entropy in two steps. Targets, dtypes and errors as there.
NllResult nll(const Tensor& log_probs, const Tensor& targets, const NllOptions& options);
/// grad_log_probs (+)= -grad_loss * scale at the targets, 0 elsewhere.
void nll_backward(const Tensor& grad_loss, const Tensor& targets, int64_t ignore_index,
                  const Tensor& scale, const Dest& grad_log_probs);

}  // namespace ops
}  // namespace lockstep
