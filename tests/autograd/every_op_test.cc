// No op without a gradient check: each function of autograd/ops/*.h that gives a Variable is in the
// table below, which checks it once. The tests of its family go through its cases.
#include "lockstep/autograd/ops/activation.h"
#include "lockstep/autograd/ops/attention.h"
#include "lockstep/autograd/ops/cast.h"
#include "lockstep/autograd/ops/conv.h"
#include "lockstep/autograd/ops/dropout.h"
#include "lockstep/autograd/ops/elementwise.h"
#include "lockstep/autograd/ops/index.h"
#include "lockstep/autograd/ops/layout.h"
#include "lockstep/autograd/ops/loss.h"
#include "lockstep/autograd/ops/matmul.h"
#include "lockstep/autograd/ops/norm.h"
#include "lockstep/autograd/ops/pool.h"
#include "lockstep/autograd/ops/reduce.h"
#include "lockstep/autograd/ops/select.h"
#include "lockstep/autograd/ops/softmax.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tests/support/declared.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>

#include <map>
#include <set>
#include <string>

namespace lockstep {
namespace {

using testing::random_tensor;
using X = std::vector<Variable>;

struct Case {
  testing::Function fn;
  std::vector<Shape> inputs = {{3, 4}};
  double low = -1, high = 1;  // of the inputs
};

const Tensor kTargets = Tensor::from<int64_t>({2, 0, 3}, {3});
const Tensor kIndex = Tensor::from<int64_t>({1, 0, 2, 2, 1, 1}, {3, 2});
const Tensor kMask = Tensor::from<uint8_t>({1, 0, 0, 1}, {4});
const std::vector<Shape> kTwo = {{3, 4}, {3, 4}}, kRow = {{3, 4}, {4}};
const std::vector<Shape> kImage = {{2, 4, 3, 2}}, kImageParameters = {{2, 4, 3, 2}, {2}, {2}};

Tensor zeros() { return Tensor::zeros({2}, DType::kF64); }
Tensor ones() { return ops::full({2}, 1, DType::kF64); }

const std::map<std::string, Case> kCases = {
    {"relu", {[](const X& x) { return relu(x[0]); }}},
    {"gelu", {[](const X& x) { return gelu(x[0]); }}},
    {"sigmoid", {[](const X& x) { return sigmoid(x[0]); }}},
    {"tanh", {[](const X& x) { return tanh(x[0]); }}},
    {"silu", {[](const X& x) { return silu(x[0]); }}},
    {"log", {[](const X& x) { return log(x[0]); }, {{3, 4}}, 0.5, 2}},
    {"exp", {[](const X& x) { return exp(x[0]); }}},
    {"sqrt", {[](const X& x) { return sqrt(x[0]); }, {{3, 4}}, 0.5, 2}},
    {"scaled_dot_product_attention",
     {[](const X& x) { return scaled_dot_product_attention(x[0], x[1], x[2]); },
      {{1, 2, 3, 4}, {1, 2, 5, 4}, {1, 2, 5, 4}}}},
    {"packed_self_attention",
     {[](const X& x) { return packed_self_attention(x[0], 2); }, {{2, 3, 12}}}},
    // Differences in a narrower type mean nothing: mixed_precision_test compares those.
    {"cast", {[](const X& x) { return cast(x[0], DType::kF64); }}},
    {"conv2d",
     {[](const X& x) { return conv2d(x[0], x[1], x[2]); }, {{2, 4, 3, 2}, {3, 2, 2, 2}, {3}}}},
    {"dropout", {[](const X& x) {
       Generator rng(1);
       return dropout(x[0], 0.4, rng);
     }}},
    {"add", {[](const X& x) { return add(x[0], x[1]); }, kRow}},
    {"sub", {[](const X& x) { return sub(x[0], x[1]); }, kRow}},
    {"mul", {[](const X& x) { return mul(x[0], x[1]); }, kRow}},
    {"div", {[](const X& x) { return div(x[0], x[1]); }, kRow, 0.5, 2}},
    {"scale", {[](const X& x) { return scale(x[0], -2.5); }}},
    {"add_scalar", {[](const X& x) { return add_scalar(x[0], 3); }}},
    {"neg", {[](const X& x) { return neg(x[0]); }}},
    {"gather", {[](const X& x) { return gather(x[0], 1, kIndex); }}},
    {"scatter_add",
     {[](const X& x) { return scatter_add(x[0], 1, kIndex, x[1]); }, {{3, 4}, {3, 2}}}},
    {"embedding", {[](const X& x) { return embedding(x[0], kIndex); }}},
    {"reshape", {[](const X& x) {
       return reshape(x[0], {2, -1});
     }}},
    {"flatten", {[](const X& x) { return flatten(x[0]); }, {{2, 3, 4}}}},
    {"slice", {[](const X& x) { return slice(x[0], 1, 2); }}},
    {"concat", {[](const X& x) { return concat(x, -1); }, {{3, 4}, {3, 2}}}},
    {"permute",
     {[](const X& x) {
        return permute(x[0], {2, 0, 1});
      },
      {{2, 3, 4}}}},
    {"transpose", {[](const X& x) { return transpose(x[0], 0, -1); }, {{2, 3, 4}}}},
    {"cross_entropy", {[](const X& x) { return cross_entropy(x[0], kTargets); }}},
    {"nll_loss", {[](const X& x) { return nll_loss(x[0], kTargets); }}},
    {"mse_loss", {[](const X& x) { return mse_loss(x[0], x[1]); }, kTwo}},
    {"bce_with_logits_loss", {[](const X& x) {
       return bce_with_logits_loss(x[0], random_tensor({3, 4}, 9, 0, 1));
     }}},
    {"cosine_embedding_loss",
     {[](const X& x) {
        return cosine_embedding_loss(x[0], x[1], Tensor::from<int64_t>({1, -1, 1}, {3}),
                                     {.margin = -0.9});
      },
      kTwo}},
    {"matmul", {[](const X& x) { return matmul(x[0], x[1]); }, {{2, 3, 4}, {4, 2}}}},
    {"linear", {[](const X& x) { return linear(x[0], x[1], x[2]); }, {{3, 4}, {2, 4}, {2}}}},
    {"batch_norm",
     {[](const X& x) { return batch_norm(x[0], x[1], x[2], zeros(), ones(), {}); },
      kImageParameters}},
    {"batch_norm_relu",
     {[](const X& x) { return batch_norm_relu(x[0], x[1], x[2], zeros(), ones(), {}, x[3]); },
      {{2, 4, 3, 2}, {2}, {2}, {2, 4, 3, 2}}}},
    {"layer_norm",
     {[](const X& x) { return layer_norm(x[0], {4}, x[1], x[2]); }, {{3, 4}, {4}, {4}}}},
    {"dropout_add_layer_norm",
     {[](const X& x) {
        Generator rng(1);
        return dropout_add_layer_norm(x[0], x[1], {4}, x[2], x[3],
                                      {.dropout = 0.4, .rng = &rng, .x_bias = x[4], .eps = 1e-3});
      },
      {{3, 4}, {3, 4}, {4}, {4}, {4}}}},
    {"group_norm",
     {[](const X& x) { return group_norm(x[0], 2, x[1], x[2]); }, {{2, 4, 3, 2}, {2}, {2}}}},
    {"max_pool2d", {[](const X& x) { return max_pool2d(x[0], {}); }, kImage}},
    {"avg_pool2d", {[](const X& x) { return avg_pool2d(x[0], {}); }, kImage}},
    {"global_avg_pool2d", {[](const X& x) { return global_avg_pool2d(x[0]); }, kImage}},
    {"sum", {[](const X& x) { return sum(x[0], {1}); }}},
    {"mean", {[](const X& x) { return mean(x[0], {0}); }}},
    {"max", {[](const X& x) { return max(x[0], 1).values; }}},
    {"where", {[](const X& x) { return where(kMask, x[0], x[1]); }, kRow}},
    {"softmax", {[](const X& x) { return softmax(x[0], -1); }}},
    {"log_softmax", {[](const X& x) { return log_softmax(x[0], 0); }}},
};

TEST_CASE("every op's gradient is checked") {
  for (const auto& entry : kCases) {
    CAPTURE(entry.first);
    const Case& c = entry.second;
    std::vector<Tensor> inputs;
    for (const Shape& shape : c.inputs) {
      inputs.push_back(random_tensor(shape, 1 + inputs.size(), c.low, c.high));
    }
    CHECK(testing::gradcheck(c.fn, inputs, {.step = 1e-5}) == "");
  }
}

TEST_CASE("no op is missing from the table") {
  const std::set<std::string> declared =
      testing::declared("autograd/ops", R"((?:Variable|MaxOutput) (\w+)\()");
  CHECK(declared.size() > 40);
  for (const std::string& op : declared) CHECK_MESSAGE(kCases.contains(op), op);
  for (const auto& entry : kCases) CHECK_MESSAGE(declared.contains(entry.first), entry.first);
}

}  // namespace
}  // namespace lockstep
