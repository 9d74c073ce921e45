#include "lockstep/models/bert_embeddings.h"

#include "lockstep/autograd/ops/elementwise.h"
#include "lockstep/autograd/ops/layout.h"
#include "lockstep/models/bert_init.h"
#include "lockstep/tensor/ops/copy.h"

namespace lockstep {

BertEmbeddings::BertEmbeddings(const BertConfig& c, Generator& rng)
    : positions_(c.max_position_embeddings),
      word_({.num_embeddings = c.vocab_size,
             .embedding_dim = c.hidden_size,
             .padding_idx = c.pad_token_id},
            rng),
      position_({.num_embeddings = positions_, .embedding_dim = c.hidden_size}, rng),
      type_({.num_embeddings = c.type_vocab_size, .embedding_dim = c.hidden_size}, rng),
      norm_({.normalized = {c.hidden_size}, .eps = c.layer_norm_eps}),
      dropout_(c.hidden_dropout_prob, rng) {
  register_module("word_embeddings", word_);
  register_module("position_embeddings", position_);
  register_module("token_type_embeddings", type_);
  register_module("norm", norm_);
  register_module("dropout", dropout_);
  init_bert(*this, c.initializer_range, rng);
  if (c.pad_token_id >= 0) {
    Tensor row = word_.weight.mutable_data().slice(c.pad_token_id, c.pad_token_id + 1);
    ops::fill(row, 0);
  }
}

Variable BertEmbeddings::forward(const Tensor& ids, const Tensor& types) {
  check(ids.defined() && ids.ndim() == 2 && ids.dtype() == DType::kI64,
        "BertModel: wanted ids i64 [B, S], got ",
        ids.defined() ? str(name_of(ids.dtype()), " ", ids.shape()) : "none");
  check(!types.defined() || types.shape() == ids.shape(), "BertModel: wanted types of the shape ",
        ids.shape(), " of the ids, got ", types.defined() ? types.shape() : Shape{});
  const int64_t length = ids.dim(1);
  check(length <= positions_, "BertModel: wanted sequences of at most ", positions_,
        " tokens (max_position_embeddings), got ", length);
  // A row for all tokens, and one for each place, are repeated by the sums.
  const Variable type = types.defined() ? type_(types) : slice(type_.weight, 0, 1);
  const Variable sum = word_(ids) + type + slice(position_.weight, 0, length);
  return dropout_(norm_(sum));
}

}  // namespace lockstep
