#include "lockstep/models/bert_masked_lm.h"

#include "lockstep/autograd/ops/activation.h"
#include "lockstep/autograd/ops/matmul.h"
#include "lockstep/models/bert_init.h"

namespace lockstep {

BertMaskedLmHead::BertMaskedLmHead(const BertConfig& c, Generator& rng)
    : dense_({.in_features = c.hidden_size, .out_features = c.hidden_size}, rng),
      norm_({.normalized = {c.hidden_size}, .eps = c.layer_norm_eps}),
      bias_(Tensor::zeros({c.vocab_size}, DType::kF32), true) {
  register_parameter("bias", bias_);
  register_module("dense", dense_);
  register_module("norm", norm_);
  init_bert(*this, c.initializer_range, rng);
}

Variable BertMaskedLmHead::forward(const Variable& x, const Variable& word_weight) {
  return linear(norm_(gelu(dense_(x))), word_weight, bias_);
}

}  // namespace lockstep
