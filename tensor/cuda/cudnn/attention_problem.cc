#include "lockstep/tensor/cuda/cudnn/attention_problem.h"

#include <cmath>

namespace lockstep::cuda {

AttentionKey attention_key(const AttentionProblem& p) {
  const AttentionLayout& l = p.layout;
  AttentionKey key{l.batch, l.heads,    l.queries,
                   l.keys,  l.head_dim, p.causal | p.padding << 1 | p.drop << 2 | p.backward << 3};
  size_t at = 6;
  for (const AttentionSteps* steps : {&l.q, &l.k, &l.v, &l.out}) {
    key[at++] = steps->batch;
    key[at++] = steps->head;
    key[at++] = steps->row;
  }
  return key;
}

bool cudnn_takes(const AttentionLayout& l, DType dtype, const AttentionParams& params) {
  constexpr int64_t kWide = 8;  // bf16 numbers in 16 bytes
  if (dtype != DType::kBF16 || l.head_dim % kWide != 0 || l.head_dim > 128) return false;
  if (l.batch == 0 || l.heads == 0 || l.queries == 0 || l.keys == 0 || l.head_dim == 0)
    return false;
  // Dropping everything has no finite factor.
  if (params.drop && !(params.dropout.factor > 0 && std::isfinite(params.dropout.factor))) {
    return false;
  }
  for (const AttentionSteps* steps : {&l.q, &l.k, &l.v, &l.out}) {
    for (const int64_t step : {steps->offset, steps->batch, steps->head, steps->row}) {
      if (step % kWide != 0) return false;
    }
  }
  return true;
}

}  // namespace lockstep::cuda
