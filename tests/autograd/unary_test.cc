// Functions of one number: activations, log, exp, sqrt.
#include "lockstep/tensor/ops/unary.h"

#include "lockstep/autograd/ops/activation.h"
#include "lockstep/tensor/ops/copy.h"
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

struct Case {
  UnaryOp op;
  Variable (*fn)(const Variable&);
  double (*exact)(double);
  double low, high;
};

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

const Case kCases[] = {
    {UnaryOp::kGelu, [](const Variable& x) { return gelu(x); },
     [](double x) { return x * normal_cdf(x); }, -6, 6},
    {UnaryOp::kGeluTanh, [](const Variable& x) { return gelu(x, GeluApproximation::kTanh); },
     [](double x) {
       const double u = std::sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x);
       return 0.5 * x * (1 + std::tanh(u));
     },
     -6, 6},
    {UnaryOp::kSigmoid, sigmoid, [](double x) { return 1 / (1 + std::exp(-x)); }, -9, 9},
    {UnaryOp::kTanh, tanh, [](double x) { return std::tanh(x); }, -4, 4},
    {UnaryOp::kSilu, silu, [](double x) { return x / (1 + std::exp(-x)); }, -9, 9},
    {UnaryOp::kLog, log, [](double x) { return std::log(x); }, 0.2, 9},
    {UnaryOp::kExp, exp, [](double x) { return std::exp(x); }, -3, 3},
    {UnaryOp::kSqrt, sqrt, [](double x) { return std::sqrt(x); }, 0.2, 9},
};

TEST_CASE("unary ops: gradients and values") {
  for (const Case& c : kCases) {
    CAPTURE(static_cast<int>(c.op));
    for (const Shape& shape : {Shape{}, Shape{1}, Shape{3, 5}, Shape{0, 4}, Shape{2, 3, 67}}) {
      const Tensor x = random_tensor(shape, 1, c.low, c.high);
      CHECK(gradcheck([&](const auto& v) { return c.fn(v[0]); }, {x}) == "");
      const auto y = ops::unary(c.op, x).to_vector<double>();
      const auto in = x.to_vector<double>();
      for (size_t i = 0; i < y.size(); ++i)
        CHECK(y[i] == doctest::Approx(c.exact(in[i])).epsilon(1e-13));
    }
  }
}

TEST_CASE("unary ops: f32 is within 2^-18 of each value's size, bf16 rounds once more") {
  for (const Case& c : kCases) {
    CAPTURE(static_cast<int>(c.op));
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      const Tensor x = random_tensor({5003}, 2, c.low, c.high, dtype);
      const Tensor g = random_tensor({5003}, 3, 0.5, 1.5, dtype);
      const Tensor y = ops::unary(c.op, x);
      const auto in = ops::cast(x, DType::kF64).to_vector<double>();
      const auto out = ops::cast(y, DType::kF64).to_vector<double>();
      // The bound that unary.h promises, and bf16's own rounding.
      const double tolerance = dtype == DType::kF32 ? 0x1p-18 : 0x1p-8;
      double worst = 0;
      for (size_t i = 0; i < out.size(); ++i) {
        const double exact = c.exact(in[i]);
        worst = std::max(worst, std::abs(out[i] - exact) / (std::abs(exact) + 1e-30));
      }
      // log crosses zero, where only the absolute error means anything.
      if (c.op != UnaryOp::kLog) CHECK(worst < tolerance);
      CHECK(relative_difference(y, ops::unary(c.op, ops::cast(x, DType::kF64))) < tolerance);

      const Tensor saved = ops::saves_result(c.op) ? y : x;
      Tensor dx = Tensor::empty(x.shape(), dtype), exact = Tensor::empty(x.shape(), DType::kF64);
      ops::unary_backward(c.op, g, saved, {dx});
      ops::unary_backward(c.op, ops::cast(g, DType::kF64), ops::cast(saved, DType::kF64), {exact});
      CHECK(relative_difference(dx, exact) < tolerance);
    }
  }
}

TEST_CASE("unary ops: extremes") {
  const float inf = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto of = [](UnaryOp op, float x) {
    return ops::unary(op, Tensor::from<float>(std::vector<float>(9, x), {9})).to_vector<float>()[8];
  };
  for (const Case& c : kCases) CHECK(std::isnan(of(c.op, nan)));
  CHECK(of(UnaryOp::kSigmoid, 200) == 1);
  CHECK(of(UnaryOp::kSigmoid, -200) == 0);
  CHECK(of(UnaryOp::kTanh, 200) == 1);
  CHECK(of(UnaryOp::kTanh, -inf) == -1);
  CHECK(of(UnaryOp::kTanh, 1e-20f) == 1e-20f);
  CHECK(of(UnaryOp::kGelu, 50) == 50);
  CHECK(of(UnaryOp::kGelu, -50) == 0);
  CHECK(of(UnaryOp::kGeluTanh, -50) == 0);
  CHECK(of(UnaryOp::kSilu, 300) == 300);
  CHECK(of(UnaryOp::kExp, 100) == inf);
  CHECK(of(UnaryOp::kExp, -inf) == 0);
  CHECK(of(UnaryOp::kLog, 0) == -inf);
  CHECK(std::isnan(of(UnaryOp::kLog, -1)));
  CHECK(std::isnan(of(UnaryOp::kSqrt, -1)));
}

TEST_CASE("unary ops: what does not fit is refused") {
  CHECK_THROWS_WITH_AS(ops::unary(UnaryOp::kExp, Tensor::zeros({2}, DType::kI64)),
                       doctest::Contains("got i64"), ArgumentError);
  const Tensor x = Tensor::zeros({2}, DType::kF32);
  CHECK_THROWS_AS(ops::unary_backward(UnaryOp::kExp, Tensor::zeros({3}, DType::kF32), x, {x}),
                  ArgumentError);
  CHECK_THROWS_AS(ops::unary_backward(UnaryOp::kExp, Tensor::zeros({2}, DType::kF64), x, {x}),
                  ArgumentError);
}

}  // namespace
}  // namespace lockstep
