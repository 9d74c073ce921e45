// Scaled dot-product attention as one op (Vaswani et al., "Attention is all you need", NIPS 2017,
// section 3.2; backward from the log-sum-exp of each row as in Dao et al., "FlashAttention",
// NeurIPS 2022): the probabilities exist only block by block.
#pragma once

#include "lockstep/tensor/dest.h"
#include "lockstep/tensor/ops/dropout.h"
#include "lockstep/tensor/tensor.h"

#include <cstdint>
#include <optional>

namespace lockstep {

/// Where element (b, h, s, d) of one operand lies: at offset + b * batch + h * head + s * row + d.
struct AttentionSteps {
  int64_t offset = 0, batch = 0, head = 0, row = 0;
};

struct AttentionLayout {
  int64_t batch = 0, heads = 0, queries = 0, keys = 0, head_dim = 0;
  AttentionSteps q = {}, k = {}, v = {}, out = {};
};

/// What the kernels need besides the operands. Query i sees keys 0 ... i when `causal`.
/// Probability (b, h, i, j) is dropped by number ((b * heads + h) * queries + i) * (keys rounded up
/// to a multiple of 4) + j of the mask's range.
struct AttentionParams {
  double scale = 1;
  bool causal = false;
  bool drop = false;
  DropoutMask dropout = {};
};

struct AttentionKernels {
  /// padding: u8 [batch, keys], not 0: this key counts for nothing; may be undefined.
  void (&forward)(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& padding,
                  const AttentionLayout& layout, const AttentionParams& params, Tensor& out,
                  Tensor& lse);
  /// grad_q, grad_k and grad_v may be parts of one tensor. Those that are not wanted are undefined.
  void (&backward)(const Tensor& grad_out, const Tensor& q, const Tensor& k, const Tensor& v,
                   const Tensor& padding, const Tensor& out, const Tensor& lse,
                   const AttentionLayout& layout, const AttentionParams& params, const Dest& grad_q,
                   const Dest& grad_k, const Dest& grad_v);
};

struct AttentionOptions {
  /// Query i sees keys 0 ... i only.
  bool causal = false;
  /// u8 [B, keys]: not 0 where a key is padding and counts for nothing (PyTorch's
  /// key_padding_mask). Undefined: none is.
  Tensor key_padding_mask = {};
  /// Each probability is dropped with this probability.
  double dropout = 0;
  /// Of the products; unset: 1 / sqrt(head_dim).
  std::optional<double> scale = std::nullopt;
};

namespace ops {

/// q [B, H, Sq, D], k and v [B, H, Sk, D], and heads 0; or q [B, Sq, H * D], k and v [B, Sk, H * D]
/// in `heads` heads. Throws ArgumentError for anything else.
AttentionLayout attention_layout(const Tensor& q, const Tensor& k, const Tensor& v, int64_t heads);
/// Queries, keys and values side by side in one tensor [B, S, 3 * H * D]; the result is [B, S, H *
/// D].
AttentionLayout packed_attention_layout(const Tensor& qkv, int64_t heads);
/// Checks the options and takes the numbers of dropout from `rng`, which may be null without it.
AttentionParams attention_params(const AttentionLayout& layout, const AttentionOptions& options,
                                 Generator* rng);

struct AttentionResult {
  Tensor out;
  Tensor lse;  // [B, H, Sq]: log of the sum of e^score over the keys that count; infinite: none do
};
/// softmax(scale * q k^T) v for each head, in memory as the layout says; `shape` is the result's. A
/// query that sees no key gives zeros, and has no gradient. f32, f64, bf16.
AttentionResult attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& padding,
                          const AttentionLayout& layout, const AttentionParams& params,
                          const Shape& shape);

/// The gradients of q, k and v, those whose Dest has memory; the three may be one tensor when q, k
/// and v are.
void attention_backward(const Tensor& grad_out, const Tensor& q, const Tensor& k, const Tensor& v,
                        const Tensor& padding, const AttentionResult& forward,
                        const AttentionLayout& layout, const AttentionParams& params,
                        const Dest& grad_q, const Dest& grad_k, const Dest& grad_v);

}  // namespace ops
}  // namespace lockstep
