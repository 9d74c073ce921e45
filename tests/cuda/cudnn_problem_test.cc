#include "lockstep/tensor/cuda/cudnn/attention_problem.h"
#include "lockstep/tensor/cuda/cudnn/conv_problem.h"
#include "lockstep/tensor/ops/matmul.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>

#include <limits>
#include <set>
#include <vector>

namespace lockstep {
namespace {

using namespace cuda;
using testing::random_tensor;
using testing::relative_difference;

TEST_CASE("cudnn: images and weights are named channels first and stay channels last in memory") {
  const Nchw at = nchw({2, 3, 4, 5});
  CHECK(at.dims == std::array<int64_t, 4>{2, 5, 3, 4});
  int64_t memory = 0;
  for (int64_t n = 0; n < 2; ++n) {
    for (int64_t h = 0; h < 3; ++h) {
      for (int64_t w = 0; w < 4; ++w) {
        for (int64_t c = 0; c < 5; ++c, ++memory) {
          CHECK(n * at.strides[0] + c * at.strides[1] + h * at.strides[2] + w * at.strides[3] ==
                memory);
        }
      }
    }
  }
}

TEST_CASE("cudnn: a pointwise convolution's weight gradient is the product that stands in for it") {
  const Tensor x = random_tensor({2, 3, 4, 5}, 1), grad = random_tensor({2, 3, 4, 6}, 2);
  Tensor wanted = Tensor::empty({6, 1, 1, 5}, DType::kF64);
  CHECK(is_pointwise(wanted.shape(), {}));
  ops::conv2d_backward_weight(grad, x, {}, {wanted});
  const Tensor got = ops::matmul(grad.reshape({24, 6}), x.reshape({24, 5}), {.transpose_a = true});
  CHECK(relative_difference(got.reshape({6, 1, 1, 5}), wanted) <= 1e-14);

  CHECK_FALSE(is_pointwise({6, 3, 1, 5}, {}));
  CHECK_FALSE(is_pointwise({6, 1, 3, 5}, {}));
  CHECK_FALSE(is_pointwise({6, 1, 1, 5}, {.stride = {2, 1}}));
  CHECK_FALSE(is_pointwise({6, 1, 1, 5}, {.padding = {0, 1}}));
  CHECK_FALSE(is_pointwise({6, 1, 1, 1}, {.groups = 5}));
  CHECK(is_pointwise({6, 1, 1, 5}, {.dilation = {2, 2}}));
}

TEST_CASE("cudnn: every property of a convolution makes another key") {
  const ConvProblem problem{.pass = ConvPass::kForward,
                            .dtype = DType::kF32,
                            .accumulate = false,
                            .tf32 = false,
                            .x = {2, 7, 7, 4},
                            .weight = {6, 3, 3, 4},
                            .y = {2, 5, 5, 6},
                            .options = {}};
  std::set<ConvKey> keys{conv_key(problem)};
  size_t count = 1;
  const auto other = [&](const auto& change) {
    ConvProblem changed = problem;
    change(changed);
    keys.insert(conv_key(changed));
    CHECK(keys.size() == ++count);
  };
  other([](ConvProblem& p) { p.pass = ConvPass::kData; });
  other([](ConvProblem& p) { p.pass = ConvPass::kWeight; });
  other([](ConvProblem& p) { p.dtype = DType::kBF16; });
  other([](ConvProblem& p) { p.accumulate = true; });
  other([](ConvProblem& p) { p.tf32 = true; });
  for (int d = 0; d < 4; ++d) {
    other([&](ConvProblem& p) { p.x = p.x.with_dim(d, 9); });
    other([&](ConvProblem& p) { p.weight = p.weight.with_dim(d, 9); });
  }
  for (size_t d = 0; d < 2; ++d) {
    other([&](ConvProblem& p) { p.options.stride[d] = 3; });
    other([&](ConvProblem& p) { p.options.padding[d] = 3; });
    other([&](ConvProblem& p) { p.options.dilation[d] = 3; });
  }
}

TEST_CASE("cudnn: which attention it is asked for") {
  const AttentionLayout packed{.batch = 2,
                               .heads = 3,
                               .queries = 9,
                               .keys = 9,
                               .head_dim = 16,
                               .q = {0, 1296, 16, 144},
                               .k = {48, 1296, 16, 144},
                               .v = {96, 1296, 16, 144},
                               .out = {0, 432, 16, 48}};
  CHECK(cudnn_takes(packed, DType::kBF16, {}));
  CHECK_FALSE(cudnn_takes(packed, DType::kF32, {}));
  CHECK_FALSE(cudnn_takes(packed, DType::kF64, {}));
  const auto refused = [&](const auto& change) {
    AttentionLayout l = packed;
    change(l);
    CHECK_FALSE(cudnn_takes(l, DType::kBF16, {}));
  };
  refused([](AttentionLayout& l) { l.head_dim = 12; });
  refused([](AttentionLayout& l) { l.head_dim = 136; });
  refused([](AttentionLayout& l) { l.batch = 0; });
  refused([](AttentionLayout& l) { l.queries = 0; });
  refused([](AttentionLayout& l) { l.keys = 0; });
  refused([](AttentionLayout& l) { l.k.offset = 4; });
  refused([](AttentionLayout& l) { l.v.row = 12; });
  AttentionParams params{.drop = true, .dropout = ops::dropout_mask({}, 0.1)};
  CHECK(cudnn_takes(packed, DType::kBF16, params));
  params.dropout = ops::dropout_mask({}, 1.0);
  CHECK_FALSE(cudnn_takes(packed, DType::kBF16, params));
}

TEST_CASE("cudnn: every property of an attention makes another key, and an offset does not") {
  const AttentionProblem problem{.layout = {.batch = 2,
                                            .heads = 3,
                                            .queries = 4,
                                            .keys = 5,
                                            .head_dim = 8,
                                            .q = {0, 1, 2, 3},
                                            .k = {0, 4, 5, 6},
                                            .v = {0, 7, 8, 9},
                                            .out = {0, 10, 11, 12}}};
  std::set<AttentionKey> keys{attention_key(problem)};
  size_t count = 1;
  const auto other = [&](const auto& change) {
    AttentionProblem changed = problem;
    change(changed);
    keys.insert(attention_key(changed));
    CHECK(keys.size() == ++count);
  };
  other([](AttentionProblem& p) { p.causal = true; });
  other([](AttentionProblem& p) { p.padding = true; });
  other([](AttentionProblem& p) { p.drop = true; });
  other([](AttentionProblem& p) { p.backward = true; });
  for (int64_t AttentionLayout::*extent :
       {&AttentionLayout::batch, &AttentionLayout::heads, &AttentionLayout::queries,
        &AttentionLayout::keys, &AttentionLayout::head_dim}) {
    other([&](AttentionProblem& p) { p.layout.*extent = 99; });
  }
  for (AttentionSteps AttentionLayout::*steps :
       {&AttentionLayout::q, &AttentionLayout::k, &AttentionLayout::v, &AttentionLayout::out}) {
    for (int64_t AttentionSteps::*step :
         {&AttentionSteps::batch, &AttentionSteps::head, &AttentionSteps::row}) {
      other([&](AttentionProblem& p) { (p.layout.*steps).*step = 99; });
    }
  }
  AttentionProblem moved = problem;
  moved.layout.k.offset = 8;
  CHECK(attention_key(moved) == attention_key(problem));
}

}  // namespace
}  // namespace lockstep
