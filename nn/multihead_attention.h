// The multi-head attention layer (Vaswani et al., "Attention is all you need", NIPS 2017).
#pragma once

#include "lockstep/autograd/ops/attention.h"
#include "lockstep/nn/linear.h"
#include "lockstep/nn/module.h"
#include "lockstep/tensor/random.h"

namespace lockstep {

struct MultiheadAttentionSpec {
  int64_t embed_dim = 1;  // E
  int64_t num_heads = 1;  // divides E
  double dropout = 0;     // of the probabilities, in training
  bool bias = true;
};

struct AttentionMask {
  /// u8 [B, keys]: not 0 where a key is padding; undefined: none is.
  Tensor key_padding_mask = {};
  /// Query i sees keys 0 ... i only.
  bool causal = false;
};

/// Queries, keys and values are projections of the arguments [B, S, E]; each head attends to its
/// E / num_heads columns of them, and what the heads give is projected once more: [B, S, E].
/// Parameters, named and initialised as PyTorch's (whose batch_first is true here): in_proj_weight
/// [3 E, E], in_proj_bias [3 E], out_proj.weight [E, E], out_proj.bias [E].
class MultiheadAttention final : public Module {
 public:
  /// Throws ArgumentError for sizes that do not fit or a dropout outside [0, 1). `rng` must outlive
  /// a layer with dropout, which draws from it.
  MultiheadAttention(const MultiheadAttentionSpec& spec, Generator& rng);
  /// Self-attention: one projection for all three, and no copy of any.
  Variable forward(const Variable& x, const AttentionMask& mask = {});
  /// query [B, Sq, E], key and value [B, Sk, E].
  Variable forward(const Variable& query, const Variable& key, const Variable& value,
                   const AttentionMask& mask = {});
  Variable operator()(const Variable& x, const AttentionMask& mask = {}) {
    return forward(x, mask);
  }
  Variable operator()(const Variable& query, const Variable& key, const Variable& value,
                      const AttentionMask& mask = {}) {
    return forward(query, key, value, mask);
  }

  Variable in_proj_weight;
  Variable in_proj_bias;  // undefined without
  Linear out_proj;

 private:
  void check_argument(const Variable& x, const char* name) const;
  AttentionOptions options(const AttentionMask& mask) const;
  /// x times part 0, 1 or 2 of in_proj.
  Variable project(const Variable& x, int64_t part) const;

  MultiheadAttentionSpec spec_;
  Generator& rng_;
};

}  // namespace lockstep
