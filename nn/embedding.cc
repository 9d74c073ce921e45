#include "lockstep/nn/embedding.h"

#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tensor/ops/random.h"

namespace lockstep {

Embedding::Embedding(const EmbeddingSpec& spec, Generator& rng) : padding_idx_(spec.padding_idx) {
  check(spec.num_embeddings > 0 && spec.embedding_dim > 0, "Embedding: wanted positive sizes, got ",
        spec.num_embeddings, " rows of ", spec.embedding_dim);
  check(spec.padding_idx < spec.num_embeddings, "Embedding: padding_idx ", spec.padding_idx,
        " is not one of ", spec.num_embeddings, " rows");
  Tensor w = Tensor::empty({spec.num_embeddings, spec.embedding_dim}, DType::kF32);
  ops::normal(w, 0, 1, rng);
  if (spec.padding_idx >= 0) {
    Tensor row = w.slice(spec.padding_idx, spec.padding_idx + 1);
    ops::fill(row, 0);
  }
  weight = Variable(w, true);
  register_parameter("weight", weight);
}

}  // namespace lockstep
