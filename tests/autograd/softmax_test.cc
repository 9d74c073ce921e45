#include "lockstep/autograd/ops/softmax.h"

#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tensor/ops/softmax.h"
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

TEST_CASE("softmax and log_softmax: gradients over every dimension") {
  const Shape shapes[] = {{7}, {1}, {3, 5}, {4, 1}, {2, 3, 5}, {2, 70, 3}, {3, 2, 131}, {0, 4}};
  for (const Shape& shape : shapes) {
    for (int dim = -shape.ndim(); dim < shape.ndim(); ++dim) {
      CAPTURE(shape);
      CAPTURE(dim);
      const Tensor x = random_tensor(shape, 1, -3, 3);
      CHECK(gradcheck([dim](const auto& v) { return softmax(v[0], dim); }, {x}) == "");
      // The checker's loss adds up to 800 values of some 5: at its default step their rounding
      // would show.
      const auto log = [dim](const auto& v) { return log_softmax(v[0], dim); };
      CHECK(gradcheck(log, {x}, {.step = 1e-5}) == "");
    }
  }
}

TEST_CASE("softmax: closed form, and every dimension agrees with the last") {
  const Tensor x = Tensor::from<double>({0, std::log(3.0), std::log(4.0)}, {3});
  // A few roundings of f64.
  CHECK(relative_difference(ops::softmax(x, 0), Tensor::from<double>({0.125, 0.375, 0.5}, {3})) <
        1e-15);
  const Tensor expected =
      Tensor::from<double>({std::log(0.125), std::log(0.375), std::log(0.5)}, {3});
  CHECK(relative_difference(ops::log_softmax(x, -1), expected) < 1e-15);

  const Tensor rows = random_tensor({100, 37}, 2, -9, 9, DType::kF32);
  Tensor columns = Tensor::empty({37, 100}, DType::kF32);
  for (int i = 0; i < 100; ++i) {
    for (int j = 0; j < 37; ++j)
      columns.mutable_data<float>()[j * 100 + i] = rows.data<float>()[i * 37 + j];
  }
  const Tensor by_row = ops::softmax(rows, 1);
  const Tensor by_column = ops::softmax(columns, 0);
  for (int i = 0; i < 100; ++i) {
    for (int j = 0; j < 37; ++j) {
      CHECK(by_row.data<float>()[i * 37 + j] ==
            doctest::Approx(by_column.data<float>()[j * 100 + i]).epsilon(1e-6));
    }
  }
}

TEST_CASE("softmax: f32 and bf16 agree with f64") {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    // exp_of is good to 2^-22 or so and the sums add as much again; bf16 rounds results (2^-9), and
    // log_softmax's backward starts from the rounded y of up to 2^5, which is worth 2^-4 in its
    // exponential.
    const double tolerance = dtype == DType::kF32 ? 2e-6 : 5e-3;
    for (const Shape& shape : {Shape{3, 1000}, Shape{5, 17}, Shape{1, 1}, Shape{2, 30, 9}}) {
      for (const int dim : {-1, 0}) {
        CAPTURE(shape);
        CAPTURE(dim);
        const Tensor x = random_tensor(shape, 3, -8, 8, dtype);
        const Tensor exact = ops::cast(x, DType::kF64);
        CHECK(relative_difference(ops::softmax(x, dim), ops::softmax(exact, dim)) < tolerance);
        CHECK(relative_difference(ops::log_softmax(x, dim), ops::log_softmax(exact, dim)) <
              tolerance);

        const Tensor g = random_tensor(shape, 4, -1, 1, dtype);
        const Tensor g_exact = ops::cast(g, DType::kF64);
        const auto backward = [&](auto op, const Tensor& grad, const Tensor& y) {
          Tensor dx = Tensor::empty(shape, y.dtype());
          op(grad, y, dim, Dest{dx, false});
          return dx;
        };
        const Tensor y = ops::softmax(x, dim);
        const Tensor log_y = ops::log_softmax(x, dim);
        // From the same rounded y, so that only backward's own error shows.
        const Tensor plain = backward(ops::softmax_backward, g, y);
        const Tensor plain_exact =
            backward(ops::softmax_backward, g_exact, ops::cast(y, DType::kF64));
        CHECK(relative_difference(plain, plain_exact) < tolerance);
        const Tensor log = backward(ops::log_softmax_backward, g, log_y);
        const Tensor log_exact =
            backward(ops::log_softmax_backward, g_exact, ops::cast(log_y, DType::kF64));
        CHECK(relative_difference(log, log_exact) < tolerance);
      }
    }
  }
}

TEST_CASE("softmax: extremes") {
  const float inf = std::numeric_limits<float>::infinity();
  // A mask of -infinity gives exactly 0; large values do not overflow.
  const auto masked =
      ops::softmax(Tensor::from<float>({1000, -inf, 1000, -1000}, {4}), 0).to_vector<float>();
  CHECK(masked == std::vector<float>{0.5, 0, 0.5, 0});
  const auto log = ops::log_softmax(Tensor::from<float>({1000, -1000}, {2}), 0).to_vector<float>();
  CHECK(log == std::vector<float>{0, -2000});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (int at = 0; at < 40; ++at) {
    std::vector<float> row(40, 1.0f);
    row[static_cast<size_t>(at)] = nan;
    CHECK(std::isnan(ops::softmax(Tensor::from<float>(row, {40}), 0).to_vector<float>()[7]));
  }
  CHECK_THROWS_AS(ops::softmax(Tensor::zeros({2, 2}, DType::kF32), 2), ArgumentError);
  CHECK_THROWS_AS(ops::softmax(Tensor::zeros({2, 2}, DType::kI64), 0), ArgumentError);
}

}  // namespace
}  // namespace lockstep
