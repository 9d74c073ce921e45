// cuDNN's plans of attention: graphs of products, softmax and masks that it knows as one kernel
// (its "scaled dot product attention"). Compiled only with --config=cuda.
#pragma once

#include "lockstep/tensor/cuda/cudnn/attention_problem.h"
#include "lockstep/tensor/cuda/cudnn/plan.h"

#include <memory>
#include <string>
#include <vector>

namespace lockstep::cuda {

/// What Plan::run binds. Operands in bf16 as the layout says, memory from their offset on.
enum AttentionOperand : int64_t {
  kAttentionQ = 1,
  kAttentionK,
  kAttentionV,
  kAttentionOut,
  kAttentionLse,      // f32 [B, H, Sq]
  kAttentionScale,    // by value, f32
  kAttentionPadding,  // bf16 [B, Sk], added to the scores; with `padding`
  kAttentionHidden,   // by value, f32, the score of a key that causality hides; with `causal`
  kAttentionKeep,     // bf16 [B, H, Sq, Sk], 1 or 0; with `drop`
  kAttentionFactor,   // by value, f32, of what is kept; with `drop`
  kAttentionGradOut,  // from here on backward only
  kAttentionGradQ,
  kAttentionGradK,
  kAttentionGradV,
  kAttentionDelta,    // f32 [B, H, Sq]: scratch
  kAttentionInverse,  // by value, f32: 1 / factor, or 1
};

/// cuDNN's suggestions, best first; empty when it has none, and `why`, if given, then has the
/// reason.
std::vector<std::unique_ptr<Plan>> plan_attention(const AttentionProblem& problem,
                                                  const PlanTarget& target,
                                                  const PlanWanted& wanted = {},
                                                  std::string* why = nullptr);

}  // namespace lockstep::cuda
