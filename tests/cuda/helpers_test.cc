// The kernels that stand beside the libraries', run on the CPU.
#include "lockstep/autograd/ops/attention.h"
#include "lockstep/tensor/cuda/add_bias.h"
#include "lockstep/tensor/cuda/attention_masks.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

namespace lockstep {
namespace {

using testing::random_tensor;
using testing::relative_difference;

TEST_CASE("add_bias adds to each row") {
  for (const auto& [type, bias_type] : {std::pair{DType::kF32, DType::kF32},
                                        {DType::kF64, DType::kF64},
                                        {DType::kBF16, DType::kBF16},
                                        {DType::kBF16, DType::kF32}}) {
    const Tensor bias = random_tensor({5}, 1, -1, 1, bias_type);
    Tensor y = random_tensor({2, 3, 5}, 2, -1, 1, type);
    const auto before = ops::cast(y, DType::kF64).to_vector<double>();
    const auto added = ops::cast(bias, DType::kF64).to_vector<double>();
    simt::add_bias(bias, y);
    const auto after = ops::cast(y, DType::kF64).to_vector<double>();
    const double half_unit = type == DType::kBF16 ? 0x1p-8 : type == DType::kF32 ? 0x1p-23 : 0;
    for (size_t i = 0; i < after.size(); ++i)
      CHECK(std::abs(after[i] - (before[i] + added[i % 5])) <= half_unit);
  }
}

TEST_CASE("a keep mask drops what attention on the CPU drops") {
  // Each value is the unit vector of its key, so the result shows the probabilities: 0 where one
  // was dropped.
  const int64_t batch = 2, heads = 2, queries = 5, keys = 7;
  const Tensor q = random_tensor({batch, heads, queries, keys}, 1, -1, 1, DType::kF32);
  const Tensor k = random_tensor({batch, heads, keys, keys}, 2, -1, 1, DType::kF32);
  Tensor v = Tensor::zeros({batch, heads, keys, keys}, DType::kF32);
  float* values = v.mutable_data<float>();
  for (int64_t i = 0; i < batch * heads * keys; ++i) values[i * keys + i % keys] = 1;
  Generator rng(7);
  const AttentionLayout layout = ops::attention_layout(q, k, v, 0);
  const AttentionParams params = ops::attention_params(layout, {.dropout = 0.4}, &rng);
  const auto seen = ops::attention(q, k, v, {}, layout, params, q.shape()).out.to_vector<float>();
  const Tensor mask = simt::keep_mask(layout, params.dropout, Device::cpu());
  CHECK(mask.shape() == Shape{batch, heads, queries, keys});
  const auto keep = ops::cast(mask, DType::kF32).to_vector<float>();
  int dropped = 0;
  for (size_t i = 0; i < keep.size(); ++i) {
    CHECK(keep[i] == (seen[i] > 0 ? 1.0f : 0.0f));
    dropped += keep[i] == 0;
  }
  CHECK(dropped > 20);
}

TEST_CASE("padding becomes a bias that leaves nothing of a score") {
  const Tensor padding = Tensor::from<uint8_t>({0, 1, 7, 0}, {2, 2});
  const auto bias = ops::cast(simt::padding_bias(padding), DType::kF32).to_vector<float>();
  CHECK(bias[0] == 0);
  CHECK(bias[3] == 0);
  for (const size_t i : {1, 2}) {
    CHECK(std::isfinite(bias[i]));
    CHECK(std::exp(bias[i] + 1e6f) == 0);
  }
}

TEST_CASE("queries that see no key are cleared where the CPU's attention has none, and no others") {
  const int64_t batch = 3, heads = 2, queries = 6, keys = 5, width = 4;
  // Sample 0: holes; sample 1: nothing but padding; sample 2: the first two keys are padding.
  const Tensor padding =
      Tensor::from<uint8_t>({0, 1, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0}, {batch, keys});
  const Tensor q = random_tensor({batch, queries, heads * width}, 1, -1, 1, DType::kBF16);
  const Tensor k = random_tensor({batch, keys, heads * width}, 2, -1, 1, DType::kBF16);
  const AttentionLayout layout = ops::attention_layout(q, k, k, heads);
  for (const bool causal : {false, true}) {
    const AttentionParams params{.causal = causal};
    const auto wanted = ops::attention(q, k, k, padding, layout, params, q.shape());
    Tensor out = ops::full(q.shape(), 3, DType::kBF16);
    Tensor lse = ops::full(wanted.lse.shape(), 3, DType::kF32);
    simt::clear_blind_queries(padding, layout, causal, out, lse);
    const auto cleared = lse.to_vector<float>(), cpu = wanted.lse.to_vector<float>();
    const auto values = ops::cast(out, DType::kF32).to_vector<float>();
    int blind = 0;
    for (int64_t i = 0; i < lse.numel(); ++i) {
      const bool is_blind = std::isinf(cpu[static_cast<size_t>(i)]);
      blind += is_blind;
      CHECK(cleared[static_cast<size_t>(i)] == (is_blind ? INFINITY : 3.0f));
      const int64_t b = i / (heads * queries), h = i / queries % heads, s = i % queries;
      for (int64_t d = 0; d < width; ++d) {
        const int64_t at = (b * queries + s) * heads * width + h * width + d;
        CHECK(values[static_cast<size_t>(at)] == (is_blind ? 0.0f : 3.0f));
      }
    }
    CHECK(blind == (causal ? 16 : 12));
  }
}

}  // namespace
}  // namespace lockstep
