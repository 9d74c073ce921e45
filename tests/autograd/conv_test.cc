#include "lockstep/autograd/ops/conv.h"

#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>

namespace lockstep {
namespace {

using testing::gradcheck;
using testing::random_tensor;
using testing::relative_difference;

struct Case {
  Shape x, weight;
  Conv2dOptions options;
};

TEST_CASE("conv2d: gradients of the reference kernels") {
  const std::vector<Case> grid = {
      {{2, 4, 5, 3}, {2, 3, 3, 3}, {.padding = {1, 1}}},
      {{1, 6, 5, 2}, {3, 3, 2, 2}, {.stride = {2, 1}, .padding = {0, 1}, .dilation = {1, 2}}},
      {{2, 5, 5, 4}, {6, 2, 3, 2}, {.stride = {2, 2}, .padding = {1, 1}, .groups = 2}},
      {{2, 4, 4, 3}, {3, 3, 3, 1}, {.padding = {1, 1}, .groups = 3}},
      {{2, 3, 3, 4}, {5, 1, 1, 4}, {.stride = {2, 2}}},
  };
  for (const Case& c : grid) {
    CAPTURE(c.weight.to_string());
    const std::vector<Tensor> inputs{random_tensor(c.x, 1), random_tensor(c.weight, 2),
                                     random_tensor({c.weight[0]}, 3)};
    CHECK(gradcheck([&](const auto& v) { return conv2d(v[0], v[1], v[2], c.options); }, inputs) ==
          "");
    CHECK(gradcheck([&](const auto& v) { return conv2d(v[0], v[1], {}, c.options); },
                    {inputs[0], inputs[1]}) == "");
  }
}

TEST_CASE("conv2d: values") {
  // One image of 3x3, a kernel that is not symmetric: a flipped kernel would give other numbers.
  const Variable x(Tensor::from<float>({1, 2, 3, 4, 5, 6, 7, 8, 9}, {1, 3, 3, 1}));
  const Variable w(Tensor::from<float>({1, 10, 100, 1000}, {1, 2, 2, 1}));
  const Variable b(Tensor::from<float>({0.5}, {1}));
  CHECK(conv2d(x, w, b).data().to_vector<float>() ==
        std::vector<float>{5421.5, 6532.5, 8754.5, 9865.5});
  CHECK(conv2d(x, w, {}, {.stride = {2, 2}, .padding = {1, 1}}).data().to_vector<float>() ==
        std::vector<float>{1000, 3200, 7040, 9865});
}

/// The largest difference between `dtype` and the f64 reference on the same values: of the result
/// and all gradients, the second time added to what is there.
double difference(const Case& c, DType dtype, DType weight_dtype) {
  const Tensor x = random_tensor(c.x, 1, -1, 1, dtype);
  const Tensor w = random_tensor(c.weight, 2, -1, 1, weight_dtype);
  const Tensor b = random_tensor({c.weight[0]}, 3, -1, 1, weight_dtype);
  std::vector<std::vector<Tensor>> results;
  Tensor grad;
  for (const bool reference : {false, true}) {
    const auto leaf = [&](const Tensor& t) {
      return Variable(reference ? ops::cast(t, DType::kF64) : ops::clone(t), true);
    };
    const Variable vx = leaf(x), vw = leaf(w), vb = leaf(b);
    std::vector<Tensor> found;
    for (const bool with_bias : {true, false}) {
      const Variable y = conv2d(vx, vw, with_bias ? vb : Variable(), c.options);
      if (!grad.defined()) grad = random_tensor(y.shape(), 4, -1, 1, dtype);
      y.backward(reference ? ops::cast(grad, DType::kF64) : grad);
      found.insert(found.end(),
                   {y.data(), ops::clone(*vx.grad()), ops::clone(*vw.grad()), *vb.grad()});
    }
    results.push_back(found);
  }
  double worst = 0;
  for (size_t i = 0; i < results[0].size(); ++i) {
    worst = std::max(worst, relative_difference(results[0][i], results[1][i]));
  }
  return worst;
}

TEST_CASE("conv2d: f32 and bf16 against the reference over a grid") {
  std::vector<Case> grid;
  for (const int64_t kernel : {1, 3}) {
    for (const int64_t stride : {1, 2}) {
      for (const int64_t padding : {0, 1}) {
        for (const int64_t dilation : {1, 2}) {
          for (const auto& [in, out, groups] : std::vector<std::array<int64_t, 3>>{{3, 5, 1},
                                                                                   {16, 32, 1},
                                                                                   {17, 9, 1},
                                                                                   {8, 12, 4},
                                                                                   {16, 16, 16},
                                                                                   {7, 7, 7},
                                                                                   {5, 10, 5},
                                                                                   {32, 64, 2}}) {
            grid.push_back({{2, 8, 7, in},
                            {out, kernel, kernel, in / groups},
                            {.stride = {stride, stride},
                             .padding = {padding, padding},
                             .dilation = {dilation, dilation},
                             .groups = groups}});
          }
        }
      }
    }
  }
  grid.push_back({{2, 14, 15, 3}, {16, 7, 7, 3}, {.stride = {2, 2}, .padding = {3, 3}}});
  grid.push_back({{1, 9, 6, 4}, {3, 1, 5, 4}, {.stride = {2, 1}, .padding = {0, 2}}});
  grid.push_back(
      {{1, 6, 9, 4}, {3, 4, 2, 4}, {.stride = {1, 3}, .padding = {2, 1}, .dilation = {1, 3}}});
  for (const Case& c : grid) {
    CAPTURE(c.x.to_string());
    CAPTURE(c.weight.to_string());
    CAPTURE(c.options.stride[0]);
    CAPTURE(c.options.padding[0]);
    CAPTURE(c.options.dilation[0]);
    CAPTURE(c.options.groups);
    // Sums of a few hundred products in f32; bf16 rounds the result and the summed gradients to 8
    // bits (2^-8 each).
    CHECK(difference(c, DType::kF32, DType::kF32) <= 5e-6);
    CHECK(difference(c, DType::kBF16, DType::kBF16) <= 1.2e-2);
    CHECK(difference(c, DType::kBF16, DType::kF32) <= 1.2e-2);
  }
}

TEST_CASE("conv2d: only the gradients that are wanted") {
  const Conv2dOptions o{.padding = {1, 1}};
  for (const DType dtype : {DType::kF64, DType::kF32}) {
    const auto leaf = [&](const Shape& s, bool wanted) {
      return Variable(random_tensor(s, 1, -1, 1, dtype), wanted);
    };
    for (int mask = 1; mask < 8; ++mask) {
      const Variable x = leaf({1, 4, 4, 2}, mask & 1), w = leaf({3, 3, 3, 2}, mask & 2),
                     b = leaf({3}, mask & 4);
      conv2d(x, w, b, o).backward(random_tensor({1, 4, 4, 3}, 5, -1, 1, dtype));
      CHECK(x.grad().has_value() == ((mask & 1) != 0));
      CHECK(w.grad().has_value() == ((mask & 2) != 0));
      CHECK(b.grad().has_value() == ((mask & 4) != 0));
    }
  }
}

TEST_CASE("conv2d: an empty batch gives an empty result, and gradients of zero") {
  const Variable x(random_tensor({0, 4, 4, 2}, 1), true);
  const Variable w(random_tensor({3, 3, 3, 2}, 2), true), b(random_tensor({3}, 3), true);
  for (const double expected : {0.0, 1.0}) {
    const Variable y = conv2d(x, w, b, {});
    CHECK(y.shape() == Shape{0, 2, 2, 3});
    y.backward(Tensor::empty(y.shape(), DType::kF64));
    CHECK(x.grad()->shape() == x.shape());
    for (const Variable& v : {w, b}) {
      for (const double g : v.grad()->to_vector<double>()) CHECK(g == expected);
      Tensor ones = *v.grad();  // the second time nothing is added to what is there
      ops::fill(ones, 1);
    }
  }
}

TEST_CASE("conv2d: errors") {
  const auto run = [](const Shape& x, const Shape& w, const Conv2dOptions& o = {},
                      DType wt = DType::kF32) {
    conv2d(Variable(random_tensor(x, 1, -1, 1, DType::kF32)),
           Variable(random_tensor(w, 2, -1, 1, wt)), {}, o);
  };
  CHECK_THROWS_WITH_AS(run({1, 4, 2, 2}, {3, 3, 3, 2}),
                       doctest::Contains("kernel covers 3 columns"), ArgumentError);
  CHECK_THROWS_WITH_AS(run({1, 4, 4, 2}, {3, 3, 3, 2}, {.dilation = {2, 1}}),
                       doctest::Contains("kernel covers 5 rows"), ArgumentError);
  CHECK_THROWS_WITH_AS(run({1, 4, 4, 2}, {3, 3, 3, 4}), doctest::Contains("wants 4"),
                       ArgumentError);
  CHECK_THROWS_WITH_AS(run({1, 4, 4, 2}, {3, 3, 3, 1}, {.groups = 2}), doctest::Contains("groups"),
                       ArgumentError);
  CHECK_THROWS_WITH_AS(run({1, 4, 4, 2}, {3, 3, 3, 2}, {.stride = {0, 1}}),
                       doctest::Contains("strides"), ArgumentError);
  CHECK_THROWS_WITH_AS(run({1, 4, 4, 2}, {3, 3, 3, 2}, {}, DType::kF64), doctest::Contains("f64"),
                       ArgumentError);
  CHECK_THROWS_WITH_AS(run({4, 4, 2}, {3, 3, 3, 2}), doctest::Contains("[N, H, W, C]"),
                       ArgumentError);
}

}  // namespace
}  // namespace lockstep
