// The embedding layer.
#pragma once

#include "lockstep/autograd/ops/index.h"
#include "lockstep/nn/module.h"
#include "lockstep/tensor/random.h"

namespace lockstep {

struct EmbeddingSpec {
  int64_t num_embeddings = 1;  // V
  int64_t embedding_dim = 1;   // D
  /// This row starts as zeros and gets no gradient from lookups; negative: none.
  int64_t padding_idx = -1;
};

/// The rows of weight that ids (i64, any shape) name: [..., D]. Parameter: weight [V, D], normal
/// with deviation 1, as PyTorch's.
class Embedding final : public Module {
 public:
  /// Throws ArgumentError unless both sizes are positive and padding_idx is a row or negative.
  Embedding(const EmbeddingSpec& spec, Generator& rng);
  Variable forward(const Tensor& ids) const {
    return embedding(weight, ids, {.padding_idx = padding_idx_});
  }
  Variable operator()(const Tensor& ids) const { return forward(ids); }

  Variable weight;

 private:
  int64_t padding_idx_;
};

}  // namespace lockstep
