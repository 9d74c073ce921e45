#include "lockstep/autograd/ops/dropout.h"

#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>
#include <omp.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace lockstep {
namespace {

using testing::gradcheck;
using testing::random_tensor;

std::vector<float> dropped(int64_t count, double p, Generator& rng) {
  return dropout(Variable(ops::full({count}, 1, DType::kF32)), p, rng).data().to_vector<float>();
}

TEST_CASE("dropout: gradient, with the mask of forward") {
  for (double p : {0.0, 0.3, 0.9, 1.0}) {
    for (const Shape& shape : {Shape{7, 11}, Shape{64}, Shape{129}, Shape{0, 3}}) {
      const auto fn = [&](const auto& x) {
        Generator rng(5);
        return dropout(x[0], p, rng);
      };
      CHECK(gradcheck(fn, {random_tensor(shape, 1)}) == "");
    }
  }
}

TEST_CASE("dropout: each element is the one that its number of the stream says") {
  Generator rng(0x123456789abcdefull);
  rng.set_state(
      {rng.state().seed, 0xfffffffeull});  // the counter's carry into its second word is met
  const PhiloxRange range{rng.state().seed, rng.state().next_block};
  const auto y = dropped(1003, 0.25, rng);
  for (int64_t i = 0; i < 1003; ++i) {
    CHECK(y[static_cast<size_t>(i)] == (range.uniform(i) >= 0.25f ? 1 / 0.75f : 0.0f));
  }
  CHECK(rng.state().next_block == 0xfffffffeull + 251);

  // At the threshold itself: kept when p equals the element's number, dropped at the next p.
  const double first = PhiloxRange{7, 0}.uniform(0);
  Generator at(7);
  CHECK(dropped(1, first, at)[0] > 0);
  Generator above(7);
  CHECK(dropped(1, first + 0x1p-24, above)[0] == 0);
}

TEST_CASE("dropout: the share of dropped elements is p and the mean stays") {
  constexpr int64_t kCount = 1 << 20;
  for (double p : {0.1, 0.5}) {
    Generator rng(3);
    const auto y = dropped(kCount, p, rng);
    const auto zeros = static_cast<double>(std::count(y.begin(), y.end(), 0.0f));
    // Five standard deviations of a binomial count.
    CHECK(std::abs(zeros - p * kCount) < 5 * std::sqrt(kCount * p * (1 - p)));
    CHECK(*std::max_element(y.begin(), y.end()) == doctest::Approx(1 / (1 - p)));
  }
}

TEST_CASE("dropout: threads change nothing, the generator moves on, its state brings a mask back") {
  const int threads = omp_get_max_threads();
  Generator rng(9);
  const Generator::State before = rng.state();
  omp_set_num_threads(1);
  const auto first = dropped(100001, 0.5, rng);
  CHECK(dropped(100001, 0.5, rng) != first);
  for (int n : {2, 3}) {
    omp_set_num_threads(n);
    rng.set_state(before);
    CHECK(dropped(100001, 0.5, rng) == first);
  }
  omp_set_num_threads(threads);
}

TEST_CASE("dropout: bf16 drops the same elements; a probability outside [0, 1] is refused") {
  Generator rng(2);
  const auto single = dropped(1000, 0.5, rng);
  Generator again(2);
  const Tensor half = dropout(Variable(ops::full({1000}, 1, DType::kBF16)), 0.5, again).data();
  CHECK(ops::cast(half, DType::kF32).to_vector<float>() == single);
  CHECK_THROWS_WITH_AS(dropped(4, 1.5, rng), doctest::Contains("[0, 1]"), ArgumentError);
  CHECK_THROWS_AS(dropped(4, std::nan(""), rng), ArgumentError);
}

}  // namespace
}  // namespace lockstep
