#include "lockstep/autograd/ops/pool.h"

#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

namespace lockstep {
namespace {

using testing::gradcheck;
using testing::random_tensor;
using testing::relative_difference;

const std::vector<Pool2dOptions> kGrid = {
    {.kernel = {2, 2}, .stride = {2, 2}},
    {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}},
    {.kernel = {3, 2}, .stride = {1, 3}, .padding = {1, 0}},
    {.kernel = {1, 1}, .stride = {2, 2}},  // windows that leave pixels out
    {.kernel = {5, 6}, .stride = {1, 1}},
};

TEST_CASE("pooling: gradients") {
  for (const Pool2dOptions& o : kGrid) {
    for (const int64_t channels : {1, 3, 130}) {
      const Tensor x = random_tensor({2, 5, 6, channels}, 7);
      CAPTURE(o.kernel[0]);
      CAPTURE(channels);
      if (channels < 100) {
        CHECK(gradcheck([&](const auto& v) { return max_pool2d(v[0], o); }, {x}) == "");
        CHECK(gradcheck([&](const auto& v) { return avg_pool2d(v[0], o); }, {x}) == "");
        CHECK(gradcheck([&](const auto& v) { return global_avg_pool2d(v[0]); }, {x}) == "");
      }
      // f32 and bf16 take the same path with another type: compare with f64 on the same values.
      for (const DType dtype : {DType::kF32, DType::kBF16}) {
        const Tensor rounded = ops::cast(x, dtype);
        const Tensor wide = ops::cast(rounded, DType::kF64);
        const double tolerance =
            dtype == DType::kF32 ? 1e-6 : 8e-3;  // bf16 rounds the result to 8 bits
        const auto differ = [&](auto&& op) {
          const Variable a(rounded, true), b(wide, true);
          const Variable ya = op(a), yb = op(b);
          const Tensor grad = random_tensor(ya.shape(), 8, 0.5, 1.5, dtype);
          ya.backward(grad);
          yb.backward(ops::cast(grad, DType::kF64));
          return std::max(relative_difference(ya.data(), yb.data()),
                          relative_difference(*a.grad(), *b.grad()));
        };
        CHECK(differ([&](const Variable& v) { return max_pool2d(v, o); }) <= tolerance);
        CHECK(differ([&](const Variable& v) { return avg_pool2d(v, o); }) <= tolerance);
        CHECK(differ([&](const Variable& v) { return global_avg_pool2d(v); }) <= tolerance);
      }
    }
  }
}

TEST_CASE("pooling: values") {
  const Variable x(Tensor::from<float>({1, 5, 2, 3, -4, 0, 7, 7, 1}, {1, 3, 3, 1}), true);
  const Pool2dOptions padded{.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}};
  CHECK(max_pool2d(x, padded).data().to_vector<float>() == std::vector<float>{5, 5, 7, 7});
  CHECK(avg_pool2d(x, padded).data().to_vector<float>()[0] == doctest::Approx(5.0 / 9));
  CHECK(global_avg_pool2d(x).data().to_vector<float>()[0] == doctest::Approx(22.0 / 9));

  // Of equal values the first gets the gradient; the padding (zeros) never wins.
  const Variable y(Tensor::from<float>({-1, -1, -1, -1}, {1, 2, 2, 1}), true);
  max_pool2d(y, {.kernel = {2, 2}, .stride = {2, 2}, .padding = {1, 1}})
      .backward(Tensor::from<float>({1, 2, 3, 4}, {1, 2, 2, 1}));
  CHECK(y.grad()->to_vector<float>() == std::vector<float>{1, 2, 3, 4});
  Variable z(Tensor::from<float>({2, 2, 2, 2}, {1, 2, 2, 1}), true);
  max_pool2d(z, {}).backward(Tensor::from<float>({3}, {1, 1, 1, 1}));
  CHECK(z.grad()->to_vector<float>() == std::vector<float>{3, 0, 0, 0});

  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (size_t at = 0; at < 4; ++at) {
    std::vector<float> values{1, 2, 3, 4};
    values[at] = nan;
    CHECK(std::isnan(max_pool2d(Variable(Tensor::from(values, {1, 2, 2, 1})), {}).data().item()));
  }
}

TEST_CASE("pooling: a window of more than 256 positions") {
  const Tensor x = random_tensor({1, 20, 20, 2}, 3);
  const Pool2dOptions whole{.kernel = {20, 20}, .stride = {1, 1}};
  CHECK(gradcheck([&](const auto& v) { return max_pool2d(v[0], whole); }, {x}) == "");
}

TEST_CASE("pooling: errors") {
  const Variable x(random_tensor({1, 4, 4, 2}, 1));
  CHECK_THROWS_WITH_AS(max_pool2d(x, {.kernel = {5, 5}}),
                       doctest::Contains("larger than the padded image"), ArgumentError);
  CHECK_THROWS_WITH_AS(avg_pool2d(x, {.padding = {2, 0}}), doctest::Contains("half the kernel"),
                       ArgumentError);
  CHECK_THROWS_WITH_AS(max_pool2d(x, {.stride = {0, 1}}), doctest::Contains("stride"),
                       ArgumentError);
  CHECK_THROWS_WITH_AS(max_pool2d(Variable(random_tensor({1, 0, 4, 2}, 1)), {}),
                       doctest::Contains("empty"), ArgumentError);
  CHECK_THROWS_WITH_AS(global_avg_pool2d(Variable(random_tensor({4, 4, 2}, 1))),
                       doctest::Contains("[N, H, W, C]"), ArgumentError);
}

TEST_CASE("pooling an empty batch gives an empty result") {
  const Variable x(random_tensor({0, 4, 6, 2}, 1), true);
  const Pool2dOptions options{.kernel = {2, 2}, .stride = {2, 2}};
  for (const Variable& y : {max_pool2d(x, options), avg_pool2d(x, options)}) {
    CHECK(y.shape() == Shape{0, 2, 3, 2});
    y.backward(Tensor::empty(y.shape(), DType::kF64));
    CHECK(x.grad()->shape() == x.shape());
  }
  const Variable y = global_avg_pool2d(x);
  CHECK(y.shape() == Shape{0, 2});
  y.backward(Tensor::empty(y.shape(), DType::kF64));
}

}  // namespace
}  // namespace lockstep
