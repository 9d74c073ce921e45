#include "lockstep/tensor/cuda/attention_masks.h"

#include "lockstep/tensor/cuda/launch.h"

#include <limits>

namespace lockstep::LOCKSTEP_GPU {
namespace {

struct PaddingBias {
  const uint8_t* padding;
  bf16* bias;
  __device__ void operator()(int64_t i) const { bias[i] = bf16(padding[i] != 0 ? kUnseen : 0.0f); }
};

/// Item i is one block of four numbers: of row i / blocks, keys from 4 * (i % blocks) on.
struct KeepMask {
  PhiloxRange range;
  uint32_t threshold;
  int64_t keys, blocks;
  bf16* keep;
  __device__ void operator()(int64_t i) const {
    const auto numbers = philox4x32(range.seed, range.first() + static_cast<uint64_t>(i));
    const int64_t first = i % blocks * 4;
    bf16* row = keep + i / blocks * keys;
    for (int64_t j = 0; j < 4 && first + j < keys; ++j) {
      const uint32_t number = numbers[static_cast<size_t>(j)] >> 8;
      row[first + j] = bf16(number >= threshold ? 1.0f : 0.0f);
    }
  }
};

/// Item i is query i of all samples and heads. Most find a key at once.
struct ClearBlindQueries {
  const uint8_t* padding;
  AttentionLayout layout;
  bool causal;
  bf16* out;
  float* lse;
  __device__ void operator()(int64_t i) const {
    const int64_t query = i % layout.queries, head = i / layout.queries % layout.heads;
    const int64_t batch = i / layout.queries / layout.heads;
    const int64_t end = causal && query + 1 < layout.keys ? query + 1 : layout.keys;
    for (int64_t j = 0; j < end; ++j) {
      if (padding[batch * layout.keys + j] == 0) return;
    }
    lse[i] = std::numeric_limits<float>::infinity();
    const AttentionSteps& at = layout.out;
    bf16* row = out + at.offset + batch * at.batch + head * at.head + query * at.row;
    for (int64_t d = 0; d < layout.head_dim; ++d) row[d] = bf16(0.0f);
  }
};

}  // namespace

Tensor padding_bias(const Tensor& padding) {
  Tensor bias = Tensor::empty(padding.shape(), DType::kBF16, padding.device());
  for_each(bias.numel(), PaddingBias{padding.data<uint8_t>(), bias.mutable_data<bf16>()});
  return bias;
}

Tensor keep_mask(const AttentionLayout& l, const DropoutMask& dropout, Device device) {
  Tensor keep = Tensor::empty({l.batch, l.heads, l.queries, l.keys}, DType::kBF16, device);
  const int64_t blocks = (l.keys + 3) / 4;
  for_each(l.batch * l.heads * l.queries * blocks,
           KeepMask{dropout.range, dropout.threshold, l.keys, blocks, keep.mutable_data<bf16>()});
  return keep;
}

void clear_blind_queries(const Tensor& padding, const AttentionLayout& l, bool causal, Tensor& out,
                         Tensor& lse) {
  for_each(l.batch * l.heads * l.queries,
           ClearBlindQueries{padding.data<uint8_t>(), l, causal, out.mutable_data<bf16>(),
                             lse.mutable_data<float>()});
}

}  // namespace lockstep::LOCKSTEP_GPU
