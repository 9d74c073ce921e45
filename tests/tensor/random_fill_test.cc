#include "lockstep/tensor/ops/random.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <numbers>

namespace lockstep {
namespace {

struct Moments {
  double mean, variance, low, high;
};

Moments moments(const Tensor& t) {
  const auto values = t.to_vector<float>();
  Moments m{0, 0, values[0], values[0]};
  for (const float x : values) {
    m.mean += x;
    m.variance += static_cast<double>(x) * x;
    m.low = std::min<double>(m.low, x);
    m.high = std::max<double>(m.high, x);
  }
  m.mean /= static_cast<double>(values.size());
  m.variance = m.variance / static_cast<double>(values.size()) - m.mean * m.mean;
  return m;
}

// The standard error of the mean of 100,000 numbers of variance 1 is 0.003; bounds are 4 to 5 of
// those.
constexpr int64_t kCount = 100000;

TEST_CASE("uniform: range and moments, and it is the generator's stream") {
  Generator rng(3);
  Tensor t = Tensor::empty({kCount}, DType::kF32);
  ops::uniform(t, -1, 3, rng);
  const Moments m = moments(t);
  CHECK(m.low >= -1);
  CHECK(m.low < -0.99);
  CHECK(m.high < 3);
  CHECK(m.high > 2.99);
  CHECK(std::abs(m.mean - 1) < 0.02);
  CHECK(std::abs(m.variance - 16.0 / 12) < 0.02);
  CHECK(rng.state() == Generator::State{3, kCount / 4});
  const PhiloxRange stream{3, 0};
  for (const int64_t i : {int64_t{0}, int64_t{6}, int64_t{70001}, kCount - 1}) {
    CHECK(t.data<float>()[i] == -1 + 4 * stream.uniform(i));
  }
}

TEST_CASE("normal: moments, tails, an odd count") {
  Generator rng(4);
  Tensor t = Tensor::empty({kCount + 1}, DType::kF32);
  ops::normal(t, 2, 0.5, rng);
  const Moments m = moments(t);
  CHECK(std::abs(m.mean - 2) < 0.008);
  CHECK(std::abs(m.variance - 0.25) < 0.006);
  int64_t beyond = 0;
  for (const float x : t.to_vector<float>())
    beyond += std::abs(x - 2) > 1;  // two deviations: 4.55 %
  CHECK(std::abs(static_cast<double>(beyond) / kCount - 0.0455) < 0.003);
  CHECK(rng.state().next_block == kCount / 4 + 1);
  // Elements 2k and 2k + 1 are 2k's radius along the cosine and the sine of 2k + 1's angle.
  const PhiloxRange stream{4, 0};
  for (const int64_t i : {int64_t{0}, int64_t{70002}, kCount}) {
    const double radius = 0.5 * std::sqrt(-2 * std::log1p(-stream.uniform(i)));
    const double angle = 2 * std::numbers::pi * stream.uniform(i + 1);
    CHECK(t.data<float>()[i] == doctest::Approx(2 + radius * std::cos(angle)).epsilon(1e-6));
    if (i < kCount)
      CHECK(t.data<float>()[i + 1] == doctest::Approx(2 + radius * std::sin(angle)).epsilon(1e-6));
  }
}

TEST_CASE("wrong arguments") {
  Generator rng(1);
  Tensor t = Tensor::zeros({2}, DType::kF32);
  Tensor i = Tensor::zeros({2}, DType::kI64);
  CHECK_THROWS_AS(ops::uniform(t, 1, 0, rng), ArgumentError);
  CHECK_THROWS_AS(ops::normal(t, 0, -1, rng), ArgumentError);
  CHECK_THROWS_AS(ops::uniform(i, 0, 1, rng), ArgumentError);
}

}  // namespace
}  // namespace lockstep
