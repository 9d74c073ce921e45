// Each op under Autocast against f64 on the same operands. These are exact in bf16, so that what
// differs is what the op itself rounds: bf16 results by at most 2^-8 of the largest element (half a
// unit of 8 bits), f32 ones, which gradients of parameters are, by some units of 2^-24 a sum.
#include "lockstep/autograd/autocast.h"

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
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace lockstep {
namespace {

using testing::random_tensor;
using testing::relative_difference;
using X = std::vector<Variable>;

constexpr double kHalf = 1.0 / 256;  // bf16's rounding of the largest element
constexpr double kSum = 2e-5;        // f32 sums of up to some thousand terms, rounded at the end

struct Case {
  const char* name;
  testing::Function fn;
  std::vector<Shape> inputs;
  DType result;
  double tolerance;               // of the result
  std::vector<double> gradients;  // of the inputs' gradients
};

Tensor statistics(double value, DType like) {
  return ops::full({16}, value, like == DType::kF64 ? DType::kF64 : DType::kF32);
}

/// What an op before would have made: bf16. f64, which is compared with, stays.
Variable half(const Variable& x) { return x.dtype() == DType::kF32 ? cast(x, DType::kBF16) : x; }

Variable product(const X& x, bool ta, bool tb) { return matmul(x[0], x[1], {ta, tb}); }

std::vector<Case> cases() {
  const DType narrow = DType::kBF16, wide = DType::kF32;
  const Tensor targets = Tensor::from<int64_t>({2, 0, 3}, {3});
  std::vector<Case> list{
      {"linear",
       [](const X& x) { return linear(x[0], x[1], x[2]); },
       {{6, 5, 40}, {24, 40}, {24}},
       narrow,
       kHalf,
       {kSum, kSum, kSum}},
      {"linear of a slice",
       [](const X& x) { return linear(x[0], slice(x[1], 8, 24)); },
       {{12, 40}, {24, 40}},
       narrow,
       kHalf,
       {kSum, kSum}},
      {"matmul",
       [](const X& x) { return product(x, false, false); },
       {{9, 33}, {33, 17}},
       narrow,
       kHalf,
       {kSum, kSum}},
      {"matmul, a transposed",
       [](const X& x) { return product(x, true, false); },
       {{33, 9}, {33, 17}},
       narrow,
       kHalf,
       {kSum, kSum}},
      {"matmul, b transposed",
       [](const X& x) { return product(x, false, true); },
       {{3, 9, 33}, {17, 33}},
       narrow,
       kHalf,
       {kSum, kSum}},
      {"matmul, both transposed",
       [](const X& x) { return product(x, true, true); },
       {{3, 33, 9}, {3, 17, 33}},
       narrow,
       kHalf,
       {kSum, kSum}},
      {"matmul of one matrix with many",
       [](const X& x) { return product(x, false, false); },
       {{9, 33}, {3, 33, 17}},
       narrow,
       kHalf,
       {kSum, kSum}},
      // The kernel of a convolution writes the gradient of its images in bf16.
      {"conv2d",
       [](const X& x) {
         return conv2d(x[0], x[1], x[2], {.padding = {1, 1}});
       },
       {{2, 7, 6, 16}, {32, 3, 3, 16}, {32}},
       narrow,
       kHalf,
       {kHalf, kSum, kSum}},
      {"conv2d, strided",
       [](const X& x) {
         return conv2d(x[0], x[1], {}, {.stride = {2, 2}});
       },
       {{2, 9, 9, 3}, {16, 3, 3, 3}},
       narrow,
       kHalf,
       {kHalf, kSum}},
      {"conv2d, grouped",
       [](const X& x) { return conv2d(x[0], x[1], {}, {.groups = 4}); },
       {{2, 6, 6, 8}, {12, 3, 3, 2}},
       narrow,
       kHalf,
       {kHalf, kSum}},
      {"layer_norm",
       [](const X& x) { return layer_norm(x[0], {96}, x[1], x[2]); },
       {{10, 96}, {96}, {96}},
       narrow,
       kHalf,
       {kHalf, kSum, kSum}},
      {"dropout_add_layer_norm",
       [](const X& x) {
         Generator rng(3);
         return dropout_add_layer_norm(x[0], x[1], {96}, x[2], x[3],
                                       {.dropout = 0.25, .rng = &rng, .x_bias = x[4]});
       },
       {{10, 96}, {10, 96}, {96}, {96}, {96}},
       narrow,
       2 * kHalf,  // of the sum and of the result
       {2 * kHalf, 2 * kHalf, kHalf, kSum, kHalf}},
      {"group_norm",
       [](const X& x) { return group_norm(x[0], 4, x[1], x[2]); },
       {{3, 5, 4, 16}, {16}, {16}},
       narrow,
       kHalf,
       {kHalf, kSum, kSum}},
      {"batch_norm",
       [](const X& x) {
         const DType like = x[0].dtype();
         return batch_norm(x[0], x[1], x[2], statistics(0, like), statistics(1, like), {});
       },
       {{4, 5, 3, 16}, {16}, {16}},
       narrow,
       kHalf,
       {kHalf, kSum, kSum}},
      {"batch_norm_relu",
       [](const X& x) {
         const DType like = x[0].dtype();
         return batch_norm_relu(x[0], x[1], x[2], statistics(0, like), statistics(1, like), {},
                                x[3]);
       },
       {{4, 5, 3, 16}, {16}, {16}, {4, 5, 3, 16}},
       narrow,
       kHalf,
       {kHalf, kSum, kSum, kHalf}},
      // Attention saves its result in bf16, and the gradient's row sums are taken from that.
      {"packed_self_attention",
       [](const X& x) { return packed_self_attention(x[0], 2); },
       {{2, 9, 48}},
       narrow,
       kHalf,
       {2 * kHalf}},
      {"scaled_dot_product_attention",
       [](const X& x) { return scaled_dot_product_attention(x[0], x[1], x[1]); },
       {{1, 2, 5, 8}, {1, 2, 7, 8}},
       narrow,
       kHalf,
       {2 * kHalf, 2 * kHalf}},
      {"softmax",
       [](const X& x) { return softmax(half(x[0]), -1); },
       {{7, 33}},
       wide,
       kSum,
       {kHalf}},
      {"log_softmax",
       [](const X& x) { return log_softmax(half(x[0]), -1); },
       {{7, 33}},
       wide,
       kSum,
       {kHalf}},
      {"sum", [](const X& x) { return sum(half(x[0]), {0}); }, {{300, 9}}, wide, kSum, {kHalf}},
      {"mean", [](const X& x) { return mean(half(x[0]), {0}); }, {{300, 9}}, wide, kSum, {kHalf}},
      {"exp", [](const X& x) { return exp(half(x[0])); }, {{7, 9}}, wide, kSum, {kHalf}},
      {"cross_entropy",
       [=](const X& x) { return cross_entropy(half(x[0]), targets); },
       {{3, 40}},
       wide,
       kSum,
       {kHalf}},
      {"mse_loss",
       [](const X& x) { return mse_loss(half(x[0]), x[1]); },
       {{5, 9}, {5, 9}},
       wide,
       kSum,
       {kHalf, kSum}},
      {"cosine_embedding_loss",
       [](const X& x) {
         return cosine_embedding_loss(half(x[0]), x[1], Tensor::from<int64_t>({1, -1}, {2}),
                                      {.margin = -0.9});
       },
       {{2, 9}, {2, 9}},
       wide,
       kSum,
       {kHalf, kSum}},
      // What follows its operands: bf16 stays bf16.
      {"gelu", [](const X& x) { return gelu(half(x[0])); }, {{9, 31}}, narrow, kHalf, {kHalf}},
      {"relu", [](const X& x) { return relu(half(x[0])); }, {{9, 31}}, narrow, kHalf, {kHalf}},
      {"dropout",
       [](const X& x) {
         Generator rng(3);
         return dropout(half(x[0]), 0.25, rng);
       },
       {{9, 31}},
       narrow,
       kHalf,
       {kHalf}},
      {"max_pool2d",
       [](const X& x) {
         return max_pool2d(half(x[0]), {.kernel = {2, 2}, .stride = {2, 2}});
       },
       {{2, 6, 6, 8}},
       narrow,
       kHalf,
       {kHalf}},
      {"global_avg_pool2d",
       [](const X& x) { return global_avg_pool2d(half(x[0])); },
       {{2, 6, 6, 8}},
       narrow,
       kHalf,
       {kHalf}},
      {"embedding",
       [](const X& x) {
         return embedding(x[0], Tensor::from<int64_t>({1, 0, 1}, {3}));
       },
       {{2, 9}},
       wide,
       0,
       {kSum}},
  };
  // One operand of each type: f32.
  const auto both = [&](const char* name, auto op) {
    list.push_back({name,
                    [op](const X& x) { return op(half(x[0]), x[1]); },
                    {{6, 9}, {9}},
                    wide,
                    kSum,
                    {kHalf, kSum}});
    list.push_back({name,
                    [op](const X& x) { return op(x[1], half(x[0])); },
                    {{6, 9}, {6, 9}},
                    wide,
                    kSum,
                    {kHalf, kSum}});
  };
  const Tensor mask = Tensor::from<uint8_t>({1, 0, 0, 1, 1, 0, 1, 0, 1}, {9});
  both("add", [](const Variable& a, const Variable& b) { return add(a, b); });
  both("sub", [](const Variable& a, const Variable& b) { return sub(a, b); });
  both("mul", [](const Variable& a, const Variable& b) { return mul(a, b); });
  both("div", [](const Variable& a, const Variable& b) { return div(a, b); });
  both("where", [=](const Variable& a, const Variable& b) { return where(mask, a, b); });
  list.push_back({"concat",
                  [](const X& x) {
                    return concat({half(x[0]), x[1]}, 0);
                  },
                  {{6, 9}, {2, 9}},
                  wide,
                  kSum,
                  {kHalf, kSum}});
  return list;
}

struct Results {
  Variable y;
  std::vector<Tensor> gradients;
};

/// fn of `values` and its gradients, for a gradient of the result that is exact in bf16.
Results results_of(const testing::Function& fn, const std::vector<Tensor>& values, DType dtype,
                   DType precision) {
  X inputs;
  for (const Tensor& value : values) inputs.emplace_back(ops::cast(value, dtype), true);
  Results results;
  {
    const Autocast scope(precision);
    results.y = fn(inputs);
  }
  const Tensor g = random_tensor(results.y.shape(), 99, -1, 1, DType::kBF16);
  results.y.backward(ops::cast(g, results.y.dtype()));  // out of the scope
  for (const Variable& input : inputs) results.gradients.push_back(*input.grad());
  return results;
}

TEST_CASE("every op under Autocast is f64's on the same operands, in the type it should have") {
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    std::vector<Tensor> values;
    for (const Shape& shape : c.inputs)
      values.push_back(random_tensor(shape, 1 + values.size(), -1, 1, DType::kBF16));
    const Results mixed = results_of(c.fn, values, DType::kF32, DType::kBF16);
    const Results exact = results_of(c.fn, values, DType::kF64, DType::kF32);
    CHECK(name_of(mixed.y.dtype()) == std::string(name_of(c.result)));
    CHECK(relative_difference(mixed.y.data(), exact.y.data()) <= c.tolerance);
    for (size_t i = 0; i < values.size(); ++i) {
      CAPTURE(i);
      CHECK(mixed.gradients[i].dtype() == DType::kF32);
      CHECK(relative_difference(mixed.gradients[i], exact.gradients[i]) <= c.gradients[i]);
    }
  }
}

}  // namespace
}  // namespace lockstep
