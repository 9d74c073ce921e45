#include "lockstep/autograd/ops/select.h"

#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>

#include <limits>
#include <vector>

namespace lockstep {
namespace {

using testing::gradcheck;
using testing::random_tensor;
using Mask = std::vector<uint8_t>;

TEST_CASE("comparisons: every one, with NaN, broadcast, in every dtype") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Variable a(Tensor::from<float>({1, 2, 3, nan}, {4}));
  const Variable b(Tensor::from<float>({2, 2, 2, nan}, {4}));
  CHECK(gt(a, b).to_vector<uint8_t>() == Mask{0, 0, 1, 0});
  CHECK(lt(a, b).to_vector<uint8_t>() == Mask{1, 0, 0, 0});
  CHECK(ge(a, b).to_vector<uint8_t>() == Mask{0, 1, 1, 0});
  CHECK(le(a, b).to_vector<uint8_t>() == Mask{1, 1, 0, 0});
  CHECK(eq(a, b).to_vector<uint8_t>() == Mask{0, 1, 0, 0});
  CHECK(ne(a, b).to_vector<uint8_t>() == Mask{1, 0, 1, 1});
  CHECK(ge(a, 2.0).to_vector<uint8_t>() == Mask{0, 1, 1, 0});

  const Tensor column = Tensor::from<double>({0, 1, 2}, {3, 1});
  const Tensor row = Tensor::from<double>({1, 2}, {2});
  const Tensor mask = ops::compare(CompareOp::kLt, column, row);
  CHECK(mask.shape() == Shape{3, 2});
  CHECK(mask.dtype() == DType::kU8);
  CHECK(mask.to_vector<uint8_t>() == Mask{1, 1, 0, 1, 0, 0});
  for (const DType dtype : {DType::kBF16, DType::kI64, DType::kI32, DType::kU8}) {
    const Tensor x = ops::cast(ops::cast(column, DType::kF32), dtype);
    CHECK(ops::compare(CompareOp::kGe, x, 1).to_vector<uint8_t>() == Mask{0, 1, 1});
  }
}

TEST_CASE("where: gradients with every operand broadcast") {
  const Shape shapes[][3] = {{{3, 5}, {3, 5}, {3, 5}}, {{3, 1}, {5}, {3, 5}}, {{2, 3, 1}, {1}, {4}},
                             {{5}, {2, 1, 5}, {3, 1}}, {{}, {4}, {}},         {{0, 3}, {0, 3}, {3}},
                             {{1, 67}, {67}, {2, 67}}};
  for (const auto& [mask_shape, a, b] : shapes) {
    CAPTURE(mask_shape);
    const Tensor mask = ops::compare(CompareOp::kGt, random_tensor(mask_shape, 1), 0);
    const auto fn = [&](const auto& v) { return where(mask, v[0], v[1]); };
    CHECK(gradcheck(fn, {random_tensor(a, 2), random_tensor(b, 3)}) == "");
    const auto self = [&](const auto& v) { return where(mask, v[0], v[0]); };
    CHECK(gradcheck(self, {random_tensor(a, 2)}) == "");
  }
}

TEST_CASE("where: values, and what is not chosen does not leak") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor mask = Tensor::from<uint8_t>({1, 0, 7}, {3});
  Variable a(Tensor::from<float>({1, nan, 3}, {3}), true), b(Tensor::from<float>({9}, {1}), true);
  const Variable y = where(mask, a, b);
  CHECK(y.data().to_vector<float>() == std::vector<float>{1, 9, 3});
  y.backward(Tensor::from<float>({1, 2, 4}, {3}));
  CHECK(a.grad()->to_vector<float>() == std::vector<float>{1, 0, 4});
  CHECK(b.grad()->to_vector<float>() == std::vector<float>{2});
  const Tensor half = ops::full({3}, 2, DType::kBF16), none = ops::full({3}, 0, DType::kBF16);
  const Tensor chosen = ops::cast(ops::where(mask, half, none), DType::kF32);
  CHECK(chosen.to_vector<float>() == std::vector<float>{2, 0, 2});
}

TEST_CASE("comparisons and where: what does not fit is refused") {
  const Tensor f = Tensor::zeros({2}, DType::kF32), d = Tensor::zeros({2}, DType::kF64);
  const Tensor mask = Tensor::zeros({2}, DType::kU8), other = Tensor::zeros({3}, DType::kF32);
  CHECK_THROWS_WITH_AS(ops::compare(CompareOp::kEq, f, d), doctest::Contains("f32 and f64"),
                       ArgumentError);
  CHECK_THROWS_AS(ops::compare(CompareOp::kEq, f, other), ArgumentError);
  const Tensor half = Tensor::zeros({2}, DType::kF16);
  CHECK_THROWS_AS(ops::compare(CompareOp::kEq, half, half), ArgumentError);
  CHECK_THROWS_WITH_AS(ops::where(f, f, f), doctest::Contains("mask of u8"), ArgumentError);
  CHECK_THROWS_AS(ops::where(mask, f, d), ArgumentError);
  CHECK_THROWS_AS(ops::where(mask, f, other), ArgumentError);
  CHECK_THROWS_AS(ops::where(mask, mask, mask), ArgumentError);
}

}  // namespace
}  // namespace lockstep
