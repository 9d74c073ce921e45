// What BERT's encoder begins with. Private to models/.
#pragma once

#include "lockstep/models/bert_config.h"
#include "lockstep/nn/dropout.h"
#include "lockstep/nn/embedding.h"
#include "lockstep/nn/norm.h"

namespace lockstep {

/// The sum of the embeddings of words, their types and their positions, normalised, with dropout.
class BertEmbeddings final : public Module {
 public:
  BertEmbeddings(const BertConfig& config, Generator& rng);
  /// [B, S, H] from ids and types i64 [B, S]; `types` may be undefined: all 0.
  Variable forward(const Tensor& ids, const Tensor& types);

  const Variable& word_weight() const { return word_.weight; }  // [V, H]

 private:
  int64_t positions_;
  Embedding word_, position_, type_;
  LayerNorm norm_;
  Dropout dropout_;
};

}  // namespace lockstep
