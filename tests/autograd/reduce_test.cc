#include "lockstep/autograd/ops/reduce.h"

#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tensor/ops/reduce.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace lockstep {
namespace {

using testing::gradcheck;
using testing::random_tensor;
using testing::relative_difference;

const std::vector<std::vector<int>> kDims = {{},     {0},     {1},    {-1},
                                             {0, 1}, {0, -1}, {1, 2}, {2, 0, 1}};

TEST_CASE("sum and mean: gradients") {
  for (const Shape& shape : {Shape{3, 4, 5}, Shape{1, 7, 3}, Shape{2, 0, 3}}) {
    const Tensor x = random_tensor(shape, 1);
    for (const auto& dims : kDims) {
      for (bool keepdim : {false, true}) {
        CAPTURE(shape.to_string());
        CHECK(gradcheck([&](const auto& v) { return sum(v[0], dims, keepdim); }, {x}) == "");
        if (shape.numel() == 0) continue;  // the mean of nothing is NaN
        CHECK(gradcheck([&](const auto& v) { return mean(v[0], dims, keepdim); }, {x}) == "");
      }
    }
  }
  CHECK(gradcheck([](const auto& v) { return sum(v[0]); }, {random_tensor({3, 5}, 1)}) == "");
  CHECK(gradcheck([](const auto& v) { return mean(v[0]); }, {random_tensor({3, 5}, 1)}) == "");
}

TEST_CASE("sum and mean: values and shapes") {
  const Variable x(Tensor::from<float>({1, 2, 3, 4, 5, 6}, {1, 2, 3}));
  const auto values = [](const Variable& v) { return v.data().to_vector<float>(); };
  CHECK(sum(x).shape() == Shape{});
  CHECK(values(sum(x)) == std::vector<float>{21});
  CHECK(values(mean(x)) == std::vector<float>{3.5});
  CHECK(sum(x, {1}).shape() == Shape{1, 3});
  CHECK(values(sum(x, {1})) == std::vector<float>{5, 7, 9});
  CHECK(sum(x, {-1}, true).shape() == Shape{1, 2, 1});
  CHECK(values(mean(x, {-1}, true)) == std::vector<float>{2, 5});
  CHECK(sum(x, {0, 2}).shape() == Shape{2});

  const Variable none(Tensor::zeros({0, 3}, DType::kF32));
  CHECK(values(sum(none, {0})) == std::vector<float>{0, 0, 0});
  CHECK(std::isnan(values(mean(none))[0]));
  CHECK_THROWS_WITH_AS(sum(x, {3}), doctest::Contains("sum: dimension 3"), ArgumentError);
  CHECK_THROWS_WITH_AS(mean(x, {0, -3}), doctest::Contains("mean: dimension -3 is named twice"),
                       ArgumentError);
}

TEST_CASE("a sum of many f32 is as good as one in f64, rounded") {
  for (const auto& dims : kDims) {
    const Tensor x = random_tensor({60, 70, 90}, 1, 0.0, 1.0, DType::kF32);
    const Tensor exact = ops::sum(ops::cast(x, DType::kF64), dims);
    CHECK(relative_difference(ops::sum(x, dims), exact) < 5e-7);
    const Tensor low = ops::cast(x, DType::kBF16);
    CHECK(relative_difference(ops::sum(low, dims), ops::sum(ops::cast(low, DType::kF64), dims)) <
          4e-3);
  }
}

TEST_CASE("max: gradient") {
  const Tensor x = random_tensor({3, 4, 5}, 1);
  for (int dim : {0, 1, 2, -1, -3}) {
    for (bool keepdim : {false, true}) {
      CHECK(gradcheck([&](const auto& v) { return max(v[0], dim, keepdim).values; }, {x}) == "");
    }
  }
  CHECK(gradcheck([&](const auto& v) { return max(v[0], 1).values; }, {random_tensor({0, 4}, 1)}) ==
        "");
}

TEST_CASE("max: values, positions, ties and NaN") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Variable x(Tensor::from<float>({1, 3, 3, -5, -4, -6, 0, nan, 9}, {3, 3}));
  const MaxOutput rows = max(x, 1);
  CHECK(rows.values.shape() == Shape{3});
  CHECK(rows.indices.to_vector<int64_t>() == std::vector<int64_t>{1, 1, 1});
  CHECK(rows.values.data().to_vector<float>()[1] == -4);
  CHECK(std::isnan(rows.values.data().to_vector<float>()[2]));
  const MaxOutput columns = max(x, 0, true);
  CHECK(columns.values.shape() == Shape{1, 3});
  CHECK(columns.indices.to_vector<int64_t>() == std::vector<int64_t>{0, 2, 2});
  CHECK_THROWS_WITH_AS(max(Variable(Tensor::zeros({2, 0}, DType::kF32)), 1),
                       doctest::Contains("empty"), ArgumentError);
}

TEST_CASE("max: bf16 picks as f64 does") {
  const Tensor x = random_tensor({37, 53}, 1, -1, 1, DType::kBF16);
  CHECK(ops::max(x, 1).indices.to_vector<int64_t>() ==
        ops::max(ops::cast(x, DType::kF64), 1).indices.to_vector<int64_t>());
}

}  // namespace
}  // namespace lockstep
