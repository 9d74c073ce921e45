// dropout_add_layer_norm.
#include "lockstep/autograd/autocast.h"
#include "lockstep/autograd/ops/dropout.h"
#include "lockstep/autograd/ops/elementwise.h"
#include "lockstep/autograd/ops/norm.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>
#include <omp.h>

#include <cstring>
#include <vector>

namespace lockstep {
namespace {

using testing::gradcheck;
using testing::random_tensor;
using testing::relative_difference;
using X = std::vector<Variable>;

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && a.dtype() == b.dtype() &&
         std::memcmp(a.raw(), b.raw(), static_cast<size_t>(a.nbytes())) == 0;
}

struct Case {
  Shape x, normalized;
  double dropout;
};

/// Rows that begin within a block of the random numbers and at one, of several blocks; more rows
/// than are taken through backward at once; one element; none.
const Case kCases[] = {{{3, 5}, {5}, 0.4},     {{7}, {7}, 0},        {{2, 3, 4}, {3, 4}, 0.2},
                       {{140, 3}, {3}, 0.1},   {{2, 64}, {64}, 0.5}, {{3, 131}, {131}, 0.3},
                       {{2, 3, 1}, {1}, 0.25}, {{0, 4}, {4}, 0.5}};

TEST_CASE("dropout_add_layer_norm: gradients with and without each option") {
  for (const Case& c : kCases) {
    CAPTURE(c.x);
    const Shape n = c.normalized;
    const Tensor x = random_tensor(c.x, 1, -2, 3), r = random_tensor(c.x, 2, -2, 3),
                 w = random_tensor(n, 3, 0.5, 2), b = random_tensor(n, 4), xb = random_tensor(n, 5);
    const auto op = [&](const Variable& x, const Variable& residual, const Variable& weight,
                        const Variable& bias, const Variable& x_bias) {
      Generator rng(6);
      rng.take(9);
      return dropout_add_layer_norm(
          x, residual, n, weight, bias,
          {.dropout = c.dropout, .rng = &rng, .x_bias = x_bias, .eps = 1e-3});
    };
    const testing::GradCheckOptions options{.step = 1e-5};
    CHECK(gradcheck([&](const X& v) { return op(v[0], v[1], v[2], v[3], v[4]); }, {x, r, w, b, xb},
                    options) == "");
    CHECK(gradcheck([&](const X& v) { return op(v[0], v[1], {}, {}, {}); }, {x, r}, options) == "");
    // Only some gradients are wanted.
    CHECK(gradcheck([&](const X& v) { return op(v[0], Variable(r), {}, {}, {}); }, {x}, options) ==
          "");
    CHECK(gradcheck([&](const X& v) { return op(Variable(x), v[0], Variable(w), {}, {}); }, {r},
                    options) == "");
    CHECK(gradcheck([&](const X& v) { return op(Variable(x), Variable(r), v[0], v[1], {}); },
                    {w, b}, options) == "");
    CHECK(gradcheck([&](const X& v) { return op(Variable(x), Variable(r), {}, {}, v[0]); }, {xb},
                    options) == "");
    // x is the residual: both gradients meet in one memory.
    CHECK(gradcheck([&](const X& v) { return op(v[0], v[0], v[1], {}, {}); }, {x, w}, options) ==
          "");
  }
}

/// Result and gradients of the op, or of the ops that it stands for, added up over two backwards.
std::vector<Tensor> results(bool fused, const Case& c, DType dtype, bool with_bias) {
  const auto leaf = [&](const Shape& shape, uint64_t seed, double low, double high) {
    return Variable(random_tensor(shape, seed, low, high, dtype), true);
  };
  const Shape n = c.normalized;
  const Variable x = leaf(c.x, 1, -2, 3), r = leaf(c.x, 2, -2, 3), w = leaf(n, 3, 0.5, 2),
                 b = leaf(n, 4, -1, 1), xb = leaf(n, 5, -1, 1);
  Generator rng(7);
  rng.take(5);
  Variable y;
  for (int pass = 0; pass < 2; ++pass) {
    if (fused) {
      y = dropout_add_layer_norm(
          x, r, n, w, b,
          {.dropout = c.dropout, .rng = &rng, .x_bias = with_bias ? xb : Variable(), .eps = 1e-3});
    } else {
      const Variable biased = with_bias ? x + xb : x;
      y = layer_norm((c.dropout > 0 ? dropout(biased, c.dropout, rng) : biased) + r, n, w, b, 1e-3);
    }
    y.backward(random_tensor(c.x, 8 + static_cast<uint64_t>(pass), -1, 1, dtype));
  }
  std::vector<Tensor> all{y.data(), *x.grad(), *r.grad(), *w.grad(), *b.grad()};
  if (with_bias) all.push_back(*xb.grad());
  return all;
}

TEST_CASE("dropout_add_layer_norm has the bits of its parts, one thread or three") {
  const int threads = omp_get_max_threads();
  const Case large{{70, 9, 96}, {96}, 0.1};
  for (const DType dtype : {DType::kF32, DType::kF64}) {
    for (const bool with_bias : {false, true}) {
      std::vector<Case> cases(std::begin(kCases), std::end(kCases));
      cases.push_back(large);
      for (const Case& c : cases) {
        CAPTURE(c.x);
        CAPTURE(name_of(dtype));
        omp_set_num_threads(1);
        const auto parts = results(false, c, dtype, with_bias),
                   one = results(true, c, dtype, with_bias);
        omp_set_num_threads(3);
        const auto three = results(true, c, dtype, with_bias);
        omp_set_num_threads(threads);
        for (size_t i = 0; i < parts.size(); ++i) {
          CAPTURE(i);
          CHECK(same_bits(three[i], one[i]));
          // Sums for the bias of x are added up in other runs.
          if (i < 5) {
            CHECK(same_bits(one[i], parts[i]));
          } else {
            CHECK(relative_difference(one[i], parts[i]) <= (dtype == DType::kF32 ? 1e-6 : 1e-14));
          }
        }
      }
    }
  }
}

TEST_CASE("dropout_add_layer_norm: bf16 follows f64") {
  const Case c{{40, 96}, {96}, 0.2};
  const auto run = [&](DType in) {
    const auto leaf = [&](const Shape& shape, uint64_t seed, double low, double high) {
      return Variable(ops::cast(random_tensor(shape, seed, low, high, DType::kBF16), in), true);
    };
    const X v{leaf(c.x, 1, -2, 3), leaf(c.x, 2, -2, 3), leaf({96}, 3, 0, 2), leaf({96}, 4, -1, 1),
              leaf({96}, 5, -1, 1)};
    Generator rng(6);
    const Variable y = dropout_add_layer_norm(v[0], v[1], {96}, v[2], v[3],
                                              {.dropout = c.dropout, .rng = &rng, .x_bias = v[4]});
    y.backward(ops::cast(random_tensor(c.x, 9, -1, 1, DType::kBF16), in));
    std::vector<Tensor> all{y.data()};
    for (const Variable& x : v) all.push_back(*x.grad());
    return all;
  };
  const auto exact = run(DType::kF64), got = run(DType::kBF16);
  // The sum is rounded (2^-9 of itself) and so is the result; a gradient besides once on its way to
  // x.
  for (size_t i = 0; i < exact.size(); ++i) {
    CAPTURE(i);
    CHECK(relative_difference(got[i], exact[i]) <= 1e-2);
  }
}

TEST_CASE("dropout_add_layer_norm: without a graph nothing is kept, and the result is the same") {
  const Variable x(random_tensor({6, 10}, 1, -1, 1, DType::kF32), true);
  const Variable r(random_tensor({6, 10}, 2, -1, 1, DType::kF32));
  const Variable with = dropout_add_layer_norm(x, r, {10});
  const NoGrad none;
  const Variable without = dropout_add_layer_norm(x, r, {10});
  CHECK(same_bits(with.data(), without.data()));
  CHECK_FALSE(without.requires_grad());
}

TEST_CASE("dropout_add_layer_norm: what does not fit is refused") {
  const auto of = [](const Shape& shape, DType dtype = DType::kF32) {
    return Variable(Tensor::zeros(shape, dtype));
  };
  const Variable x = of({2, 3});
  CHECK_THROWS_WITH_AS(dropout_add_layer_norm(x, of({3}), {3}),
                       doctest::Contains("a residual like x, f32 [2, 3], got f32 [3]"),
                       ArgumentError);
  CHECK_THROWS_AS(dropout_add_layer_norm(x, of({2, 3}, DType::kF64), {3}), ArgumentError);
  CHECK_THROWS_WITH_AS(dropout_add_layer_norm(x, x, {4}), doctest::Contains("normalized [4]"),
                       ArgumentError);
  CHECK_THROWS_WITH_AS(dropout_add_layer_norm(x, x, {3}, of({2})),
                       doctest::Contains("a weight of [3]"), ArgumentError);
  CHECK_THROWS_WITH_AS(dropout_add_layer_norm(x, x, {3}, {}, {}, {.x_bias = of({4})}),
                       doctest::Contains("a bias of x of [3]"), ArgumentError);
  CHECK_THROWS_WITH_AS(dropout_add_layer_norm(x, x, {3}, {}, {}, {.dropout = 0.1}),
                       doctest::Contains("wants a generator"), ArgumentError);
  Generator rng(1);
  CHECK_THROWS_WITH_AS(dropout_add_layer_norm(x, x, {3}, {}, {}, {.dropout = 1.5, .rng = &rng}),
                       doctest::Contains("a probability in [0, 1]"), ArgumentError);
  CHECK_THROWS_AS(dropout_add_layer_norm(x, x, {3}, {}, {}, {.eps = -1}), ArgumentError);
}

}  // namespace
}  // namespace lockstep
