// Ops against PyTorch: results and gradients. Products, softmax and the loss:
// tests/autograd/linalg_golden_test.cc.
#include "lockstep/autograd/ops/activation.h"
#include "lockstep/autograd/ops/conv.h"
#include "lockstep/autograd/ops/elementwise.h"
#include "lockstep/autograd/ops/layout.h"
#include "lockstep/autograd/ops/norm.h"
#include "lockstep/autograd/ops/pool.h"
#include "lockstep/autograd/ops/reduce.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tests/support/golden.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

using testing::check_golden;
using testing::relative_difference;
using Inputs = std::vector<Variable>;
using Cases = std::vector<std::pair<std::string, testing::Function>>;

TensorFile golden(const std::string& family) {
  return read_safetensors("tests/golden/" + family + ".safetensors");
}

/// Each case agrees, and no case of the file was forgotten.
void check_family(const std::string& family, const Cases& cases) {
  const TensorFile file = golden(family);
  size_t results = 0;
  for (const auto& [name, tensor] : file.tensors) results += name.ends_with(".result");
  CHECK(results == cases.size());
  for (const auto& [name, fn] : cases) CHECK(check_golden(file, name, fn) == "");
}

TEST_CASE("golden: elementwise") {
  Cases cases = {{"relu", [](const Inputs& x) { return relu(x[0]); }},
                 {"scale", [](const Inputs& x) { return scale(x[0], -2.5); }},
                 {"add_scalar", [](const Inputs& x) { return add_scalar(x[0], 1.25); }},
                 {"neg", [](const Inputs& x) { return neg(x[0]); }}};
  for (const char* shapes : {"same", "trailing", "both", "with_scalar"}) {
    cases.emplace_back(std::string("add_") + shapes, [](const Inputs& x) { return x[0] + x[1]; });
    cases.emplace_back(std::string("sub_") + shapes, [](const Inputs& x) { return x[0] - x[1]; });
    cases.emplace_back(std::string("mul_") + shapes, [](const Inputs& x) { return x[0] * x[1]; });
    cases.emplace_back(std::string("div_") + shapes, [](const Inputs& x) { return x[0] / x[1]; });
  }
  check_family("elementwise", cases);
}

TEST_CASE("golden: reduce") {
  check_family("reduce",
               {{"sum_all", [](const Inputs& x) { return sum(x[0]); }},
                {"mean_all", [](const Inputs& x) { return mean(x[0]); }},
                {"sum_middle", [](const Inputs& x) { return sum(x[0], {1}); }},
                {"sum_outer_inner",
                 [](const Inputs& x) {
                   return sum(x[0], {0, 2}, true);
                 }},
                {"mean_last", [](const Inputs& x) { return mean(x[0], {-1}); }},
                {"mean_long",
                 [](const Inputs& x) {
                   return mean(x[0], {0, 1});
                 }},
                {"max_middle", [](const Inputs& x) { return max(x[0], 1).values; }},
                {"max_last", [](const Inputs& x) { return max(x[0], -1, true).values; }}});
}

TEST_CASE("golden: layout") {
  check_family("layout", {{"reshape",
                           [](const Inputs& x) {
                             return reshape(x[0], {6, -1});
                           }},
                          {"flatten", [](const Inputs& x) { return flatten(x[0], 1); }},
                          {"slice", [](const Inputs& x) { return slice(x[0], 1, 4); }},
                          {"concat", [](const Inputs& x) { return concat(x, 1); }},
                          {"to_nhwc",
                           [](const Inputs& x) {
                             return permute(x[0], {0, 2, 3, 1});
                           }},
                          {"transpose", [](const Inputs& x) { return transpose(x[0], 0, 2); }}});
}

TEST_CASE("golden: conv") {
  const auto conv = [](const Conv2dOptions& options) {
    return [options](const Inputs& x) {
      return conv2d(x[0], x[1], x.size() > 2 ? x[2] : Variable(), options);
    };
  };
  check_family("conv", {{"plain", conv({})},
                        {"one_by_one", conv({})},
                        {"stride_padding", conv({.stride = {2, 1}, .padding = {1, 2}})},
                        {"dilation", conv({.padding = {2, 2}, .dilation = {2, 2}})},
                        {"groups", conv({.padding = {1, 1}, .groups = 2})}});
}

TEST_CASE("golden: pool") {
  const Pool2dOptions overlapping{.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}};
  check_family("pool",
               {{"max", [](const Inputs& x) { return max_pool2d(x[0], {}); }},
                {"max_overlapping", [&](const Inputs& x) { return max_pool2d(x[0], overlapping); }},
                {"average", [](const Inputs& x) { return avg_pool2d(x[0], {}); }},
                {"average_padded", [&](const Inputs& x) { return avg_pool2d(x[0], overlapping); }},
                {"global_average", [](const Inputs& x) { return global_avg_pool2d(x[0]); }}});
}

TEST_CASE("golden: norm, with the running statistics that it leaves") {
  const TensorFile file = golden("norm");
  const auto check_norm = [&](const std::string& name, const BatchNormOptions& options) {
    const Tensor mean = ops::clone(file.at(name + ".running_mean"));
    const Tensor var = ops::clone(file.at(name + ".running_var"));
    const auto fn = [&](const Inputs& x) {
      return x.size() == 4 ? batch_norm_relu(x[0], x[1], x[2], mean, var, options, x[3])
                           : batch_norm(x[0], x[1], x[2], mean, var, options);
    };
    CHECK(check_golden(file, name, fn) == "");
    CHECK(relative_difference(mean, file.at(name + ".after.running_mean")) <= 1e-5);
    CHECK(relative_difference(var, file.at(name + ".after.running_var")) <= 1e-5);
  };
  check_norm("training", {.training = true, .momentum = 0.1});
  check_norm("evaluation", {.training = false});
  check_norm("relu_residual", {.training = true, .momentum = 0.3});
}

}  // namespace
}  // namespace lockstep
