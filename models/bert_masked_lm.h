// The head that predicts masked words. Private to models/.
#pragma once

#include "lockstep/models/bert_config.h"
#include "lockstep/nn/linear.h"
#include "lockstep/nn/norm.h"

namespace lockstep {

/// A linear layer, GELU and a normalisation; then the products with the rows of the word embedding,
/// which it shares with the model, plus a bias of its own for each word.
class BertMaskedLmHead final : public Module {
 public:
  BertMaskedLmHead(const BertConfig& config, Generator& rng);
  /// Logits [M, V] from x [M, H] and the word embedding [V, H]; M may be 0.
  Variable forward(const Variable& x, const Variable& word_weight);

 private:
  Linear dense_;
  LayerNorm norm_;
  Variable bias_;  // [V]
};

}  // namespace lockstep
