// adam_step, lamb_step and lerp against their definitions.
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tensor/ops/optimizer.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

namespace lockstep {
namespace {

using testing::random_tensor;
using testing::relative_difference;

// bf16 keeps 8 bits, so one rounding is up to 2^-9 of the value.
const std::vector<std::pair<DType, double>> kKinds{
    {DType::kF64, 2e-15}, {DType::kF32, 1e-6}, {DType::kBF16, 0.01}};

struct Update {
  std::vector<double> p, g, m, v;

  Update(const Tensor& p, const Tensor& g, const Tensor& m, const Tensor& v)
      : p(values(p)), g(values(g)), m(values(m)), v(values(v)) {}
  static std::vector<double> values(const Tensor& x) {
    return ops::cast(x, DType::kF64).to_vector<double>();
  }

  /// As the papers have it.
  std::vector<double> direction(const AdamStep& s, double l2) {
    std::vector<double> r(p.size());
    for (size_t i = 0; i < p.size(); ++i) {
      const double d = g[i] + l2 * p[i];
      m[i] = s.beta1 * m[i] + (1 - s.beta1) * d;
      v[i] = s.beta2 * v[i] + (1 - s.beta2) * d * d;
      const auto t = static_cast<double>(s.step);
      r[i] = m[i] / (1 - std::pow(s.beta1, t)) /
             (std::sqrt(v[i] / (1 - std::pow(s.beta2, t))) + s.eps);
    }
    return r;
  }
  void adam(const AdamStep& s) {
    const auto r = direction(s, s.decoupled_weight_decay ? 0 : s.weight_decay);
    for (size_t i = 0; i < p.size(); ++i) {
      if (s.decoupled_weight_decay) p[i] -= s.lr * s.weight_decay * p[i];
      p[i] -= s.lr * r[i];
    }
  }
  void lamb(const AdamStep& s) {
    auto r = direction(s, 0);
    double params = 0, directions = 0;
    for (size_t i = 0; i < p.size(); ++i) {
      r[i] += s.weight_decay * p[i];
      params += p[i] * p[i];
      directions += r[i] * r[i];
    }
    for (size_t i = 0; i < p.size(); ++i) p[i] -= s.lr * std::sqrt(params / directions) * r[i];
  }
};

TEST_CASE("adam_step and lamb_step are their definitions, for every dtype and odd count") {
  const std::vector<AdamStep> steps{
      {.lr = 0.01},
      {.lr = 0.1, .beta1 = 0, .beta2 = 0.5, .eps = 0.1, .step = 3},
      {.lr = 0.1, .weight_decay = 0.1, .step = 7},
      {.lr = 0.1, .weight_decay = 0.1, .decoupled_weight_decay = true, .step = 1000000007}};
  for (const auto& [dtype, tolerance] : kKinds) {
    for (const AdamStep& step : steps) {
      for (const int64_t n : {0, 1, 77, 50001}) {
        for (const bool lamb : {false, true}) {
          CAPTURE(name_of(dtype));
          CAPTURE(n);
          CAPTURE(lamb);
          Tensor p = random_tensor({n}, 1, -1, 1, dtype), m = random_tensor({n}, 3, -1, 1, dtype),
                 v = random_tensor({n}, 4, 0.5, 1, dtype);
          const Tensor g = random_tensor({n}, 2, -1, 1, dtype);
          Update wanted(p, g, m, v);
          if (lamb) {
            wanted.lamb(step);
            ops::lamb_step(p, g, m, v, step);
          } else {
            wanted.adam(step);
            ops::adam_step(p, g, m, v, step);
          }
          CHECK(relative_difference(m, Tensor::from(wanted.m, {n})) <= tolerance);
          CHECK(relative_difference(v, Tensor::from(wanted.v, {n})) <= tolerance);
          // The definition adds a norm's squares up one after the other.
          CHECK(relative_difference(p, Tensor::from(wanted.p, {n})) <= tolerance * (lamb ? 10 : 1));
        }
      }
    }
  }
}

TEST_CASE("zeros stay zeros; LAMB's ratio is 1 where a norm is 0") {
  const Tensor zero = Tensor::zeros({40}, DType::kF32);
  Tensor p = Tensor::zeros({40}, DType::kF32), m = ops::clone(p), v = ops::clone(p);
  ops::adam_step(p, zero, m, v, {.lr = 1, .weight_decay = 0.1});
  ops::lamb_step(p, zero, m, v, {.lr = 1, .weight_decay = 0.1});
  for (const Tensor& x : {p, m, v}) CHECK(x.to_vector<float>() == zero.to_vector<float>());
  const Tensor one = ops::full({40}, 1, DType::kF32);
  ops::lamb_step(p, one, m, v, {.lr = 0.5});  // |p| = 0
  CHECK(p.to_vector<float>()[39] == doctest::Approx(-0.5));
}

TEST_CASE("lerp goes from the nearer end, so that its ends are exact") {
  for (const auto& [dtype, tolerance] : kKinds) {
    for (const double weight : {0.0, 0.1, 0.5, 0.9, 1.0}) {
      for (const int64_t n : {0, 1, 50001}) {
        Tensor a = random_tensor({n}, 1, -1, 1, dtype);
        const Tensor x = random_tensor({n}, 2, -1, 1, dtype);
        auto wanted = Update::values(a);
        const auto to = Update::values(x);
        for (size_t i = 0; i < to.size(); ++i)
          wanted[i] = (1 - weight) * wanted[i] + weight * to[i];
        ops::lerp(a, x, weight);
        CHECK(relative_difference(a, Tensor::from(wanted, {n})) <=
              (weight == 0 || weight == 1 ? 0 : tolerance));
      }
    }
  }
}

TEST_CASE("what does not fit is refused") {
  Tensor p = Tensor::zeros({3}, DType::kF32), m = ops::clone(p), v = ops::clone(p), none;
  Tensor other = Tensor::zeros({4}, DType::kF32);
  for (const auto& step : {ops::adam_step, ops::lamb_step}) {
    CHECK_THROWS_AS(step(p, other, m, v, {.lr = 1}, none), ArgumentError);
    CHECK_THROWS_AS(step(p, p, other, v, {.lr = 1}, none), ArgumentError);
    CHECK_THROWS_AS(step(p, p, m, none, {.lr = 1}, none), ArgumentError);
    CHECK_THROWS_AS(step(p, p, m, v, {.lr = 1, .step = 0}, none), ArgumentError);
    CHECK_THROWS_AS(step(p, p, m, v, {.lr = 1}, Tensor::zeros({3}, DType::kF32)), ArgumentError);
    CHECK_THROWS_AS(step(p, p, m, v, {.lr = 1}, Tensor::zeros({4}, DType::kBF16)), ArgumentError);
  }
  CHECK_THROWS_AS(ops::lerp(p, other, 0.5), ArgumentError);
  CHECK_THROWS_AS(ops::lerp(p, m, 1.5), ArgumentError);
  CHECK_THROWS_AS(ops::lerp(p, Tensor::zeros({3}, DType::kF64), 0.5), ArgumentError);
}

}  // namespace
}  // namespace lockstep
