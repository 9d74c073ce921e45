// Attention in bf16 by cuDNN.
#pragma once

#include "lockstep/tensor/ops/attention.h"

namespace lockstep::cuda {

/// Other dtypes, odd sizes, gradients that are added, and what cuDNN has no plan for go to our own
/// kernels. Dropout drops what it drops on the CPU: the mask, 2 bytes for each probability, is
/// written to memory before each call and read in it, which is far cheaper than leaving tensor
/// cores unused.
extern const AttentionKernels kCudnnAttention;

}  // namespace lockstep::cuda
