// cuDNN has a plan for every attention of BERT on an H200, made on a machine without one.
#include "lockstep/tensor/cuda/cudnn/attention_plan.h"

#include "lockstep/tests/cuda/plans/device.h"

#include <doctest/doctest.h>

#include <string>

namespace lockstep {
namespace {

using namespace cuda;
using testing::h200;

std::string refusal(const AttentionProblem& problem) {
  std::string why;
  return plan_attention(problem, {.device = &h200()}, {}, &why).empty() ? why : "";
}

AttentionLayout packed(int64_t batch, int64_t rows, int64_t heads, int64_t head_dim) {
  const Tensor qkv = Tensor::empty({batch, rows, 3 * heads * head_dim}, DType::kBF16);
  return ops::packed_attention_layout(qkv, heads);
}

TEST_CASE("plans for the attention of BERT-base and BERT-large, forward and backward") {
  for (const int64_t heads : {12, 16}) {
    for (const int64_t rows : {128, 512}) {
      const AttentionLayout layout = packed(8, rows, heads, 64);
      REQUIRE(cudnn_takes(layout, DType::kBF16, {}));
      for (const bool padding : {false, true}) {
        for (const bool drop : {false, true}) {
          for (const bool backward : {false, true}) {
            INFO(heads, " heads, ", rows, " rows, padding ", padding, ", drop ", drop,
                 ", backward ", backward);
            CHECK(refusal(
                      {.layout = layout, .padding = padding, .drop = drop, .backward = backward}) ==
                  "");
          }
        }
      }
    }
  }
}

TEST_CASE("plans for causal attention, and for queries and keys of different numbers") {
  Tensor q = Tensor::empty({2, 4, 24, 64}, DType::kBF16);
  Tensor k = Tensor::empty({2, 4, 40, 64}, DType::kBF16);
  for (const bool backward : {false, true}) {
    CHECK(refusal({.layout = packed(2, 128, 12, 64), .causal = true, .backward = backward}) == "");
    CHECK(refusal({.layout = ops::attention_layout(q, k, k, 0),
                   .causal = true,
                   .padding = true,
                   .drop = true,
                   .backward = backward}) == "");
  }
}

TEST_CASE("no plan for heads that cannot be read by 16 bytes") {
  CHECK(refusal({.layout = packed(2, 128, 2, 7)}) != "");
}

TEST_CASE("a plan of attention is found again by its name") {
  for (const bool backward : {false, true}) {
    const AttentionProblem problem{.layout = packed(8, 128, 12, 64), .backward = backward};
    const PlanTarget target{.device = &h200()};
    const auto few = plan_attention(problem, target, {.most = kMostTimed});
    REQUIRE(!few.empty());
    for (const auto& plan : few) {
      const auto again = plan_attention(problem, target, {.name = plan->name()});
      REQUIRE(again.size() == 1);
      CHECK(again[0]->name() == plan->name());
    }
  }
}

}  // namespace
}  // namespace lockstep
