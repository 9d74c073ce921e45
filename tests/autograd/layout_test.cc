#include "lockstep/autograd/ops/layout.h"

#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tensor/ops/layout.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace lockstep {
namespace {

using testing::gradcheck;
using testing::random_tensor;

/// 0, 1, 2, ... converted to `dtype`.
Tensor counted(const Shape& shape, DType dtype) {
  std::vector<int64_t> values(static_cast<size_t>(shape.numel()));
  std::iota(values.begin(), values.end(), int64_t{0});
  return ops::cast(Tensor::from(values, shape), dtype);
}

std::vector<int64_t> integers(const Tensor& x) {
  return ops::cast(x, DType::kI64).to_vector<int64_t>();
}

/// Permuting by its definition.
std::vector<int64_t> permuted(const Tensor& x, const std::vector<int>& dims) {
  const auto from = integers(x);
  std::vector<int64_t> to;
  for (int64_t i = 0; i < x.numel(); ++i) {
    int64_t index = i;
    int64_t offset = 0;
    for (size_t k = dims.size(); k-- > 0;) {
      const int d = dims[k];
      offset += index % x.shape()[d] * x.shape().numel(d + 1, x.ndim());
      index /= x.shape()[d];
    }
    to.push_back(from[static_cast<size_t>(offset)]);
  }
  return to;
}

TEST_CASE("permute: every order of four dimensions, every dtype") {
  std::vector<int> dims = {0, 1, 2, 3};
  do {
    for (const Shape& shape : {Shape{2, 3, 4, 5}, Shape{3, 1, 1, 2}}) {
      const Tensor x = counted(shape, DType::kF64);
      CHECK(integers(ops::permute(x, dims)) == permuted(x, dims));
      CHECK(gradcheck([&](const auto& v) { return permute(v[0], dims); },
                      {random_tensor(shape, 1)}) == "");
    }
    for (DType dtype : {DType::kF32, DType::kBF16, DType::kI64, DType::kI32, DType::kU8}) {
      const Tensor x = counted({2, 3, 4, 5}, dtype);
      CHECK(integers(ops::permute(x, dims)) == permuted(x, dims));
    }
  } while (std::next_permutation(dims.begin(), dims.end()));
}

TEST_CASE("permute: sizes around the tile, and the degenerate ones") {
  for (const Shape& shape :
       {Shape{2, 33, 65}, Shape{70, 3, 31}, Shape{1, 32, 64}, Shape{2, 0, 3}, Shape{1, 1, 1}}) {
    const Tensor x = counted(shape, DType::kF32);
    for (const std::vector<int>& dims : {std::vector<int>{0, 2, 1}, {2, 1, 0}, {2, 0, 1}}) {
      CHECK(integers(ops::permute(x, dims)) == permuted(x, dims));
    }
  }
  CHECK(ops::permute(Tensor::zeros({}, DType::kF32), {}).shape() == Shape{});
  const Variable x(counted({2, 3}, DType::kF32));
  CHECK(transpose(x, 0, -1).data().to_vector<float>() == std::vector<float>{0, 3, 1, 4, 2, 5});
  CHECK_THROWS_WITH_AS(permute(x, {0}), doctest::Contains("wanted 2 dimensions"), ArgumentError);
  CHECK_THROWS_WITH_AS(permute(x, {1, -1}), doctest::Contains("named twice"), ArgumentError);
  CHECK_THROWS_WITH_AS(transpose(x, 0, 2), doctest::Contains("does not exist"), ArgumentError);
}

TEST_CASE("reshape and flatten") {
  const Tensor x = random_tensor({2, 3, 4}, 1);
  CHECK(gradcheck([](const auto& v) { return reshape(v[0], {4, -1}); }, {x}) == "");
  CHECK(gradcheck([](const auto& v) { return reshape(v[0], Shape{24}); }, {x}) == "");
  CHECK(gradcheck([](const auto& v) { return flatten(v[0]); }, {x}) == "");
  CHECK(flatten(Variable(x)).shape() == Shape{2, 12});
  CHECK(flatten(Variable(x), 0).shape() == Shape{24});
  CHECK(flatten(Variable(x), -1).shape() == Shape{2, 3, 4});
  CHECK(flatten(Variable(Tensor::zeros({0, 3, 4}, DType::kF32))).shape() == Shape{0, 12});
  CHECK(reshape(Variable(x), {24}).data().shares_memory(x));
  CHECK_THROWS_AS(flatten(Variable(x), 3), ArgumentError);
}

TEST_CASE("slice: gradients, of overlapping parts too") {
  const Tensor x = random_tensor({5, 3}, 1);
  CHECK(gradcheck([](const auto& v) { return slice(v[0], 1, 4); }, {x}) == "");
  CHECK(gradcheck([](const auto& v) { return slice(v[0], 0, 5); }, {x}) == "");
  CHECK(gradcheck([](const auto& v) { return slice(v[0], 2, 2); }, {x}) == "");
  CHECK(gradcheck(
            [](const auto& v) {
              return concat({slice(v[0], 0, 3), slice(v[0], 2, 5)}, 1);
            },
            {x}) == "");
}

TEST_CASE("concat: values and gradients along each dimension") {
  for (int dim : {0, 1, 2, -1}) {
    const Shape shape{2, 3, 4};
    const std::vector<Tensor> xs = {
        random_tensor(shape, 1), random_tensor(shape.with_dim(dim, 1), 2),
        random_tensor(shape.with_dim(dim, 0), 3), random_tensor(shape.with_dim(dim, 5), 4)};
    CHECK(gradcheck([&](const auto& v) { return concat(v, dim); }, xs) == "");
    CHECK(gradcheck([&](const auto& v) { return concat({v[0], v[0]}, dim); }, {xs[0]}) == "");
    const Tensor y = ops::concat(xs, dim);
    CHECK(y.dim(dim) == shape.dim(dim) + 6);
    int64_t begin = 0;
    for (const Tensor& x : xs) {
      const Tensor part = Tensor::empty(x.shape(), x.dtype());
      ops::take_part(y, dim, begin, {part});
      CHECK(part.to_vector<double>() == x.to_vector<double>());
      begin += x.dim(dim);
    }
  }
  const std::vector<Tensor> labels = {Tensor::from<int64_t>({1, 2}, {2, 1}),
                                      Tensor::from<int64_t>({3, 4}, {2, 1})};
  CHECK(ops::concat(labels, 1).to_vector<int64_t>() == std::vector<int64_t>{1, 3, 2, 4});
  const Variable x(Tensor::zeros({2, 3}, DType::kF32));
  CHECK_THROWS_AS(concat({}, 0), ArgumentError);
  CHECK_THROWS_WITH_AS(concat({x, transpose(x, 0, 1)}, 0), doctest::Contains("does not fit"),
                       ArgumentError);
}

}  // namespace
}  // namespace lockstep
