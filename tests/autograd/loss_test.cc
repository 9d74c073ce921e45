#include "lockstep/autograd/ops/loss.h"

#include "lockstep/tensor/allocator.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tensor/ops/metrics.h"
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

Tensor targets_of(std::vector<int64_t> values) {
  const auto n = static_cast<int64_t>(values.size());
  return Tensor::from(values, {n});
}

const CrossEntropyOptions kCases[] = {
    {},
    {.reduction = Reduction::kSum},
    {.ignore_index = 2},
    {.label_smoothing = 0.1},
    {.ignore_index = 2, .label_smoothing = 0.3, .reduction = Reduction::kSum},
    {.label_smoothing = 1},
};

TEST_CASE("cross_entropy: gradients") {
  for (const CrossEntropyOptions& options : kCases) {
    for (const int64_t classes : {3, 17, 100}) {
      const auto fn = [&](const auto& x) {
        return cross_entropy(x[0], targets_of({0, 2, 1, 2, 2}), options);
      };
      CHECK(gradcheck(fn, {random_tensor({5, classes}, 1, -3, 3)}) == "");
    }
  }
  const auto one = [](const auto& x) { return cross_entropy(x[0], targets_of({0})); };
  CHECK(gradcheck(one, {random_tensor({1, 1}, 2)}) == "");
}

TEST_CASE("cross_entropy: closed form") {
  // softmax of the rows: (1/8, 3/8, 4/8) and uniform.
  const Variable logits(Tensor::from<double>({0, std::log(3.0), std::log(4.0), 7, 7, 7}, {2, 3}),
                        true);
  const auto loss = [&](std::vector<int64_t> targets, CrossEntropyOptions options) {
    return cross_entropy(logits, targets_of(targets), options).data().item();
  };
  const double a = -std::log(3.0 / 8);
  const double b = std::log(3.0);
  CHECK(loss({1, 2}, {}) == doctest::Approx((a + b) / 2).epsilon(1e-14));
  CHECK(loss({1, 2}, {.reduction = Reduction::kSum}) == doctest::Approx(a + b).epsilon(1e-14));
  CHECK(loss({1, -100}, {}) == doctest::Approx(a).epsilon(1e-14));
  CHECK(loss({1, 0}, {.ignore_index = 1}) == doctest::Approx(b).epsilon(1e-14));
  const double mean = -(std::log(1.0 / 8) + std::log(3.0 / 8) + std::log(4.0 / 8)) / 3;
  CHECK(loss({1, -100}, {.label_smoothing = 0.2}) ==
        doctest::Approx(0.8 * a + 0.2 * mean).epsilon(1e-14));

  const Variable y = cross_entropy(logits, targets_of({1, -100}));
  CHECK(y.shape() == Shape{});
  y.backward();
  const Tensor expected = Tensor::from<double>({1.0 / 8, 3.0 / 8 - 1, 4.0 / 8, 0, 0, 0}, {2, 3});
  CHECK(relative_difference(*logits.grad(), expected) < 1e-15);
}

TEST_CASE("cross_entropy: nothing to predict is 0, not NaN") {
  for (const int64_t rows : {0, 2}) {
    Variable logits(random_tensor({rows, 3}, 3, -1, 1, DType::kF32), true);
    const Variable loss = cross_entropy(logits, ops::full({rows}, -100, DType::kI64));
    CHECK(loss.data().item() == 0);
    loss.backward();
    for (float g : logits.grad()->to_vector<float>()) CHECK(g == 0);
  }
}

TEST_CASE("cross_entropy: f32 and bf16 agree with f64") {
  std::vector<int64_t> values(40);
  for (int64_t i = 0; i < 40; ++i)
    values[static_cast<size_t>(i)] = i % 7 == 3 ? -100 : i * 991 % 3001;
  const Tensor targets = targets_of(values);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const CrossEntropyOptions& options : kCases) {
      const Tensor x = random_tensor({40, 3001}, 4, -10, 10, dtype);
      CrossEntropyOptions o = options;
      o.ignore_index = -100;
      Variable logits(x, true);
      Variable exact(ops::cast(x, DType::kF64), true);
      const Variable loss = cross_entropy(logits, targets, o);
      const Variable exact_loss = cross_entropy(exact, targets, o);
      // The loss is computed in f32 for both: sums of 3001 terms, errors of a few 2^-24.
      CHECK(loss.dtype() == DType::kF32);
      CHECK(loss.data().item() == doctest::Approx(exact_loss.data().item()).epsilon(2e-6));
      loss.backward();
      exact_loss.backward();
      // e^(x - lse) carries the absolute errors of lse and of x - lse: 2^-20 for the rounding of
      // each (they are near 20) and as much for the sum of 3001 terms. bf16 gradients are rounded
      // to 2^-9.
      const double tolerance = dtype == DType::kF32 ? 1e-5 : 4e-3;
      CHECK(relative_difference(*logits.grad(), *exact.grad()) < tolerance);
    }
  }
}

TEST_CASE("cross_entropy: a warm call allocates nothing") {
  Variable logits(random_tensor({8, 10}, 5, -1, 1, DType::kF32), true);
  const Tensor targets = Tensor::zeros({8}, DType::kI64);
  cross_entropy(logits, targets).backward();
  const uint64_t misses = cpu_allocator().stats().misses;
  cross_entropy(logits, targets).backward();
  CHECK(cpu_allocator().stats().misses == misses);
}

TEST_CASE("cross_entropy: what does not fit is refused") {
  const Variable logits(Tensor::zeros({2, 3}, DType::kF32));
  CHECK_THROWS_WITH_AS(cross_entropy(logits, targets_of({0, 3})), doctest::Contains("row 1 is 3"),
                       ArgumentError);
  CHECK_THROWS_AS(cross_entropy(logits, targets_of({-1, 0})), ArgumentError);
  CHECK_THROWS_AS(cross_entropy(logits, targets_of({0})), ArgumentError);
  CHECK_THROWS_AS(cross_entropy(logits, Tensor::zeros({2}, DType::kI32)), ArgumentError);
  CHECK_THROWS_AS(cross_entropy(Variable(Tensor::zeros({3}, DType::kF32)), targets_of({0})),
                  ArgumentError);
  CHECK_THROWS_AS(cross_entropy(logits, targets_of({0, 1}), {.label_smoothing = 1.5}),
                  ArgumentError);
}

TEST_CASE("count_correct: top 1 and top k, ties, NaN, ignored targets") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor logits = Tensor::from<float>({1, 3, 2,    //
                                             5, 5, 5,    //
                                             nan, 2, 1,  //
                                             0, 1, 2},   //
                                            {4, 3});
  CHECK(ops::count_correct(logits, targets_of({1, 0, 0, 2})) == 3);
  CHECK(ops::count_correct(logits, targets_of({2, 1, 1, 1})) == 0);
  CHECK(ops::count_correct(logits, targets_of({2, 1, 1, 1}), 2) == 4);
  CHECK(ops::count_correct(logits, targets_of({0, 2, 2, 0}), 2) == 0);
  CHECK(ops::count_correct(logits, targets_of({-100, 3, 1, -1}), 3) == 1);
  CHECK(ops::count_correct(Tensor::zeros({0, 3}, DType::kF32), targets_of({}), 1) == 0);
  CHECK_THROWS_AS(ops::count_correct(logits, targets_of({0}), 1), ArgumentError);
}

}  // namespace
}  // namespace lockstep
