#include "lockstep/tensor/ops/optimizer.h"

#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>

#include <vector>

namespace lockstep {
namespace {

using testing::random_tensor;
using testing::relative_difference;

/// The definition, element by element in f64.
void reference(std::vector<double>& p, const std::vector<double>& g, std::vector<double>& v,
               const SgdStep& step) {
  for (size_t i = 0; i < p.size(); ++i) {
    double d = g[i] + step.weight_decay * p[i];
    v[i] = step.momentum * v[i] + d;
    d = step.nesterov ? d + step.momentum * v[i] : v[i];
    p[i] -= step.lr * d;
  }
}

TEST_CASE("sgd_step is its definition, for every form, dtype and odd count") {
  // bf16 keeps 8 bits, so one rounding is up to 2^-9 of the value.
  const std::vector<std::pair<DType, double>> kinds{
      {DType::kF64, 1e-15}, {DType::kF32, 1e-6}, {DType::kBF16, 0.01}};
  const std::vector<SgdStep> steps{
      {.lr = 0.1},
      {.lr = 0.1, .weight_decay = 0.01},
      {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01},
      {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true}};
  for (const auto& [dtype, tolerance] : kinds) {
    for (const SgdStep& step : steps) {
      for (const int64_t n : {int64_t{0}, int64_t{1}, int64_t{77}, int64_t{50001}}) {
        Tensor p = random_tensor({n}, 1, -1, 1, dtype);
        const Tensor g = random_tensor({n}, 2, -1, 1, dtype);
        Tensor v = random_tensor({n}, 3, -1, 1, dtype);
        auto expected_p = ops::cast(p, DType::kF64).to_vector<double>();
        auto expected_v = ops::cast(v, DType::kF64).to_vector<double>();
        const Tensor old_v = ops::clone(v);
        reference(expected_p, ops::cast(g, DType::kF64).to_vector<double>(), expected_v, step);
        ops::sgd_step(p, g, v, step);
        if (step.momentum == 0) {
          CHECK(relative_difference(v, old_v) == 0);
        } else {
          CHECK(relative_difference(v, Tensor::from(expected_v, {n})) <= tolerance);
        }
        CHECK(relative_difference(p, Tensor::from(expected_p, {n})) <= tolerance);
      }
    }
  }
}

TEST_CASE("sgd_step refuses what does not fit") {
  Tensor p = Tensor::zeros({3}, DType::kF32);
  Tensor none;
  CHECK_THROWS_AS(ops::sgd_step(p, Tensor::zeros({4}, DType::kF32), none, {.lr = 1}),
                  ArgumentError);
  CHECK_THROWS_AS(ops::sgd_step(p, Tensor::zeros({3}, DType::kF64), none, {.lr = 1}),
                  ArgumentError);
  CHECK_THROWS_AS(ops::sgd_step(p, p, none, {.lr = 1, .momentum = 0.9}), ArgumentError);
  CHECK_THROWS_AS(ops::sgd_step(p, p, none, {.lr = 1, .nesterov = true}), ArgumentError);
}

}  // namespace
}  // namespace lockstep
