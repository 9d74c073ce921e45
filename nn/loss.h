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

}  // namespace lockstep
