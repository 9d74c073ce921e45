// Attention as cuDNN is asked for it. Pure functions, tested without a GPU.
#pragma once

#include "lockstep/tensor/cuda/problem_cache.h"
#include "lockstep/tensor/ops/attention.h"

#include <cstdint>

namespace lockstep::cuda {

struct AttentionProblem {
  AttentionLayout layout;
  bool causal = false, padding = false, drop = false;
  bool backward = false;
};

using AttentionKey = ProblemKey<18>;
/// Different for problems that need different plans. Offsets, the scale and dropout's probability
/// are given at each run.
AttentionKey attention_key(const AttentionProblem& problem);

/// Whether cuDNN is asked at all: its attention reads bf16 by 16 bytes at a time, heads of at most
/// 128. What it is asked and refuses goes to our own kernel too.
bool cudnn_takes(const AttentionLayout& layout, DType dtype, const AttentionParams& params);

}  // namespace lockstep::cuda
