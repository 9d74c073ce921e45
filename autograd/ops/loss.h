// Losses.
#pragma once

#include "lockstep/autograd/variable.h"
#include "lockstep/tensor/ops/loss.h"

namespace lockstep {

/// The cross-entropy between softmax(logits) and the targets, a scalar: logits [N, C] of f32, f64
/// or bf16, targets i64 [N]. The loss is f32 for bf16 logits. Rows whose target is ignore_index
/// count for nothing, and the mean over no row is 0; any other target outside [0, C) throws
/// ArgumentError.
Variable cross_entropy(const Variable& logits, const Tensor& targets,
                       const CrossEntropyOptions& options = {});

/// The negative log-likelihood of log_probs [N, C], which log_softmax gives, at the targets:
/// cross_entropy in two steps, with its dtypes and errors.
Variable nll_loss(const Variable& log_probs, const Tensor& targets, const NllOptions& options = {});

// Each a scalar, in f32 for f32 and bf16 and in f64 for f64. The mean of nothing is 0.

/// The mean (or sum) of (x - target)^2, of one shape and dtype; both may have a gradient.
Variable mse_loss(const Variable& x, const Variable& target,
                  Reduction reduction = Reduction::kMean);

struct BceOptions {
  /// [C], in the dtype of the logits: how much a positive target of each entry of the last
  /// dimension counts. Undefined: 1.
  Tensor pos_weight = {};
  Reduction reduction = Reduction::kMean;
};
/// Binary cross-entropy between sigmoid(logits) and targets in [0, 1] of one shape and dtype,
/// without overflow for large logits. Targets have no gradient.
Variable bce_with_logits_loss(const Variable& logits, const Tensor& targets,
                              const BceOptions& options = {});

struct CosineEmbeddingOptions {
  double margin = 0;
  Reduction reduction = Reduction::kMean;
};
/// For rows a and b [N, D] and labels i64 [N], over the rows: 1 - cos(a, b) where the label is 1,
/// max(0, cos(a, b) - margin) where it is -1; another label throws ArgumentError.
Variable cosine_embedding_loss(const Variable& a, const Variable& b, const Tensor& labels,
                               const CosineEmbeddingOptions& options = {});

}  // namespace lockstep
