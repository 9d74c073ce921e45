// What our attention promises and cuDNN's does not know, made for it in memory: keys that are
// padding anywhere in a sample, dropout by our own numbers, queries that see no key.
#pragma once

#include "lockstep/tensor/ops/attention.h"

namespace lockstep::cuda {

/// The score of a key that is not seen: nothing of it is left after the softmax, and it is finite,
/// because infinities would meet.
inline constexpr float kUnseen = -1e30f;

/// bf16 [B, Sk] to add to the scores: kUnseen for padding, u8 [B, Sk], 0 elsewhere.
Tensor padding_bias(const Tensor& padding);
/// bf16 [B, H, Sq, Sk]: 1 where a probability is kept, 0 where it is dropped.
Tensor keep_mask(const AttentionLayout& layout, const DropoutMask& dropout, Device device);
/// Queries that see no key get a result of zeros and an infinite log-sum-exp, from which backward
/// makes zeros. `out` is bf16, `lse` f32.
void clear_blind_queries(const Tensor& padding, const AttentionLayout& layout, bool causal,
                         Tensor& out, Tensor& lse);

}  // namespace lockstep::cuda

/// The same on the CPU, for tests.
namespace lockstep::simt {

using cuda::kUnseen;
Tensor padding_bias(const Tensor& padding);
Tensor keep_mask(const AttentionLayout& layout, const DropoutMask& dropout, Device device);
void clear_blind_queries(const Tensor& padding, const AttentionLayout& layout, bool causal,
                         Tensor& out, Tensor& lse);

}  // namespace lockstep::simt
