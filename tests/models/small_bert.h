// The small BERT of tests/golden/make_bert.py, and batches for it.
#pragma once

#include "lockstep/models/bert.h"

#include <vector>

namespace lockstep::testing {

inline constexpr const char* kSmallBert = "tests/golden/bert_small_hf";

inline BertConfig small_bert_config() {
  return {.vocab_size = 60,
          .hidden_size = 32,
          .num_hidden_layers = 2,
          .num_attention_heads = 4,
          .intermediate_size = 48,
          .hidden_dropout_prob = 0,
          .attention_probs_dropout_prob = 0,
          .max_position_embeddings = 20};
}

/// Sequences of half to full length, the second halves of type 1; every third token of the first is
/// masked, every fourth of the second, and so on.
struct SmallBatch {
  BertInput input;
  Tensor masked_positions, masked_labels, next_labels;

  SmallBatch(int64_t batch, int64_t length, uint64_t seed) {
    Generator rng(seed);
    const PhiloxRange dice = rng.take(4 * batch * length + 2 * batch);
    int64_t next = 0;
    const auto roll = [&](int64_t below) {
      return static_cast<int64_t>(dice.bits(next++) % static_cast<uint32_t>(below));
    };
    std::vector<int64_t> ids, types, positions, labels, follows;
    std::vector<uint8_t> padding;
    for (int64_t b = 0; b < batch; ++b) {
      const int64_t used = length / 2 + roll(length / 2 + 1);
      for (int64_t s = 0; s < length; ++s) {
        ids.push_back(s < used ? 1 + roll(59) : 0);
        types.push_back(2 * s >= used && s < used ? 1 : 0);
        padding.push_back(s < used ? 0 : 1);
        if (s < used && roll(3 + b) == 0) {
          positions.push_back(b * length + s);
          labels.push_back(roll(60));
        }
      }
      follows.push_back(roll(2));
    }
    const auto count = static_cast<int64_t>(positions.size());
    input = {.ids = Tensor::from(ids, {batch, length}),
             .types = Tensor::from(types, {batch, length}),
             .padding = Tensor::from(padding, {batch, length})};
    masked_positions = Tensor::from(positions, {count});
    masked_labels = Tensor::from(labels, {count});
    next_labels = Tensor::from(follows, {batch});
  }
};

}  // namespace lockstep::testing
