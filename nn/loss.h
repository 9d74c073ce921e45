// Losses as modules.
#pragma once

#include "lockstep/autograd/ops/loss.h"
#include "lockstep/nn/module.h"

namespace lockstep {

/// The cross entropy of logits [N, C] and classes i64 [N]: a scalar, the mean by default.
class CrossEntropyLoss final : public Module {
 public:
  explicit CrossEntropyLoss(const CrossEntropyOptions& options = {}) : options_(options) {}
  Variable operator()(const Variable& logits, const Tensor& targets) const {
    return cross_entropy(logits, targets, options_);
  }

 private:
  CrossEntropyOptions options_;
};

/// See nll_loss.
class NLLLoss final : public Module {
 public:
  explicit NLLLoss(const NllOptions& options = {}) : options_(options) {}
  Variable operator()(const Variable& log_probs, const Tensor& targets) const {
    return nll_loss(log_probs, targets, options_);
  }

 private:
  NllOptions options_;
};

/// See mse_loss.
class MSELoss final : public Module {
 public:
  explicit MSELoss(Reduction reduction = Reduction::kMean) : reduction_(reduction) {}
  Variable operator()(const Variable& x, const Variable& target) const {
    return mse_loss(x, target, reduction_);
  }

 private:
  Reduction reduction_;
};

/// See bce_with_logits_loss.
class BCEWithLogitsLoss final : public Module {
 public:
  explicit BCEWithLogitsLoss(const BceOptions& options = {}) : options_(options) {}
  Variable operator()(const Variable& logits, const Tensor& targets) const {
    return bce_with_logits_loss(logits, targets, options_);
  }

 private:
  BceOptions options_;
};

/// See cosine_embedding_loss.
class CosineEmbeddingLoss final : public Module {
 public:
  explicit CosineEmbeddingLoss(const CosineEmbeddingOptions& options = {}) : options_(options) {}
  Variable operator()(const Variable& a, const Variable& b, const Tensor& labels) const {
    return cosine_embedding_loss(a, b, labels, options_);
  }

 private:
  CosineEmbeddingOptions options_;
};

}  // namespace lockstep
