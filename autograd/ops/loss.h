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

}  // namespace lockstep
