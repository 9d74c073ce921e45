#include "lockstep/nn/multihead_attention.h"

#include "lockstep/autograd/ops/layout.h"
#include "lockstep/autograd/ops/matmul.h"
#include "lockstep/nn/init.h"
#include "lockstep/tensor/ops/copy.h"

namespace lockstep {

MultiheadAttention::MultiheadAttention(const MultiheadAttentionSpec& spec, Generator& rng)
    : out_proj({.in_features = spec.embed_dim, .out_features = spec.embed_dim, .bias = spec.bias},
               rng),
      spec_(spec),
      rng_(rng) {
  const int64_t e = spec.embed_dim;
  check(spec.num_heads > 0 && e % spec.num_heads == 0, "MultiheadAttention: ", spec.num_heads,
        " heads do not divide an embed_dim of ", e);
  check(spec.dropout >= 0 && spec.dropout < 1,
        "MultiheadAttention: wanted a dropout in [0, 1), got ", spec.dropout);
  Tensor weight = Tensor::empty({3 * e, e}, DType::kF32);
  init::xavier_uniform(weight, rng);
  in_proj_weight = Variable(weight, true);
  register_parameter("in_proj_weight", in_proj_weight);
  if (spec.bias) {
    in_proj_bias = Variable(Tensor::zeros({3 * e}, DType::kF32), true);
    register_parameter("in_proj_bias", in_proj_bias);
    ops::fill(out_proj.bias.mutable_data(), 0);
  }
  register_module("out_proj", out_proj);
}

void MultiheadAttention::check_argument(const Variable& x, const char* name) const {
  check(x.data().ndim() == 3 && x.dim(2) == spec_.embed_dim, "MultiheadAttention: wanted ", name,
        " [B, S, ", spec_.embed_dim, "], got ", x.shape());
}

AttentionOptions MultiheadAttention::options(const AttentionMask& mask) const {
  return {.causal = mask.causal,
          .key_padding_mask = mask.key_padding_mask,
          .dropout = training() ? spec_.dropout : 0};
}

Variable MultiheadAttention::project(const Variable& x, int64_t part) const {
  const int64_t begin = part * spec_.embed_dim, end = begin + spec_.embed_dim;
  return linear(x, slice(in_proj_weight, begin, end),
                in_proj_bias.defined() ? slice(in_proj_bias, begin, end) : Variable());
}

Variable MultiheadAttention::forward(const Variable& x, const AttentionMask& mask) {
  check_argument(x, "x");
  const Variable qkv = linear(x, in_proj_weight, in_proj_bias);
  return out_proj(packed_self_attention(qkv, spec_.num_heads, options(mask), &rng_));
}

Variable MultiheadAttention::forward(const Variable& query, const Variable& key,
                                     const Variable& value, const AttentionMask& mask) {
  if (query.is(key) && query.is(value)) return forward(query, mask);
  check_argument(query, "query");
  check_argument(key, "key");
  check_argument(value, "value");
  return out_proj(scaled_dot_product_attention(project(query, 0), project(key, 1),
                                               project(value, 2), spec_.num_heads, options(mask),
                                               &rng_));
}

}  // namespace lockstep
