#include "lockstep/models/sentence_embedding.h"

#include "lockstep/autograd/ops/activation.h"
#include "lockstep/autograd/ops/elementwise.h"
#include "lockstep/autograd/ops/layout.h"
#include "lockstep/autograd/ops/matmul.h"
#include "lockstep/autograd/ops/reduce.h"
#include "lockstep/base/error.h"
#include "lockstep/tensor/ops/copy.h"

#include <algorithm>

namespace lockstep {
namespace {

/// f32 [B, 1, S]: what each token weighs in the mean of its sequence.
Tensor weights_of(const Tensor& padding, int64_t batch, int64_t length) {
  Tensor weights = Tensor::empty({batch, 1, length}, DType::kF32);
  float* weight = weights.mutable_data<float>();
  const Tensor host = padding.defined() ? ops::to_device(padding, Device::cpu()) : Tensor();
  const uint8_t* dropped = host.defined() ? host.data<uint8_t>() : nullptr;
  for (int64_t b = 0; b < batch; ++b) {
    float* row = weight + b * length;
    for (int64_t s = 0; s < length; ++s)
      row[s] = dropped != nullptr && dropped[b * length + s] != 0 ? 0.0f : 1.0f;
    const auto tokens = static_cast<float>(std::count(row, row + length, 1.0f));
    for (int64_t s = 0; s < length; ++s) row[s] /= std::max(tokens, 1.0f);
  }
  return weights;
}

}  // namespace

Variable mean_of_tokens(const Variable& sequence, const Tensor& padding) {
  check(sequence.data().ndim() == 3, "mean_of_tokens: wanted a sequence [B, S, H], got ",
        sequence.shape());
  const int64_t batch = sequence.dim(0), length = sequence.dim(1);
  check(!padding.defined() ||
            (padding.shape() == Shape{batch, length} && padding.dtype() == DType::kU8),
        "mean_of_tokens: wanted padding u8 [", batch, ", ", length, "], got ",
        padding.defined() ? str(name_of(padding.dtype()), " ", padding.shape()) : "none");
  const Tensor weights = ops::cast(weights_of(padding, batch, length), sequence.dtype());
  return reshape(matmul(Variable(ops::to_device(weights, sequence.device())), sequence),
                 {batch, sequence.dim(2)});
}

Variable sentence_embeddings(const Variable& sequence, const Tensor& padding) {
  const Variable mean = mean_of_tokens(sequence, padding);
  // The smallest norm is added under the root, where the gradient of a zero vector needs it.
  const Variable norm = sqrt(add_scalar(sum(mean * mean, {1}, /*keepdim=*/true), 1e-24));
  return mean / norm;
}

}  // namespace lockstep
