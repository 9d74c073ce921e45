#include "lockstep/models/bert_layer.h"

#include "lockstep/autograd/ops/activation.h"
#include "lockstep/models/bert_init.h"

namespace lockstep {

BertLayer::BertLayer(const BertConfig& c, Generator& rng)
    : attention_({.embed_dim = c.hidden_size,
                  .num_heads = c.num_attention_heads,
                  .dropout = c.attention_probs_dropout_prob},
                 rng),
      attention_norm_({.normalized = {c.hidden_size}, .eps = c.layer_norm_eps}),
      intermediate_({.in_features = c.hidden_size, .out_features = c.intermediate_size}, rng),
      output_({.in_features = c.intermediate_size, .out_features = c.hidden_size}, rng),
      output_norm_({.normalized = {c.hidden_size}, .eps = c.layer_norm_eps}),
      dropout_(c.hidden_dropout_prob, rng) {
  register_module("attention", attention_);
  register_module("attention_norm", attention_norm_);
  register_module("intermediate", intermediate_);
  register_module("output", output_);
  register_module("output_norm", output_norm_);
  register_module("dropout", dropout_);
  init_bert(*this, c.initializer_range, rng);
}

Variable BertLayer::forward(const Variable& x, const Tensor& padding) {
  const Variable attended = attention_(x, {.key_padding_mask = padding});
  const Variable y = attention_norm_.forward(attended, x, dropout_);
  return output_norm_.forward(output_(gelu(intermediate_(y))), y, dropout_);
}

}  // namespace lockstep
