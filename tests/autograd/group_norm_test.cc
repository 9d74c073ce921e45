// layer_norm and group_norm.
#include "lockstep/tensor/ops/group_norm.h"
#include "lockstep/autograd/ops/norm.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>
#include <omp.h>

#include <cmath>
#include <cstring>
#include <vector>

namespace lockstep {
namespace {

using testing::gradcheck;
using testing::random_tensor;
using testing::relative_difference;

TEST_CASE("layer_norm: gradients with and without weight and bias") {
  struct {
    Shape x, normalized;
  } const cases[] = {{{3, 5}, {5}}, {{7}, {7}},     {{2, 3, 4}, {3, 4}}, {{2, 3, 1}, {1}},
                     {{0, 4}, {4}}, {{70, 3}, {3}}, {{2, 3, 33}, {33}},  {{130, 17}, {17}}};
  for (const auto& c : cases) {
    CAPTURE(c.x);
    CAPTURE(c.normalized);
    const Tensor x = random_tensor(c.x, 1, -2, 3), w = random_tensor(c.normalized, 2, 0.5, 2),
                 b = random_tensor(c.normalized, 3);
    const Shape n = c.normalized;
    // Rows of one element have nearly nothing but rounding in their gradient.
    const auto full = [&](const auto& v) { return layer_norm(v[0], n, v[1], v[2], 1e-3); };
    CHECK(gradcheck(full, {x, w, b}, {.step = 1e-5}) == "");
    const auto plain = [&](const auto& v) { return layer_norm(v[0], n, {}, {}, 1e-3); };
    CHECK(gradcheck(plain, {x}, {.step = 1e-5}) == "");
    const auto weight = [&](const auto& v) { return layer_norm(Variable(x), n, v[0]); };
    CHECK(gradcheck(weight, {w}) == "");
    const auto bias = [&](const auto& v) { return layer_norm(v[0], n, {}, v[1], 1e-3); };
    CHECK(gradcheck(bias, {x, b}, {.step = 1e-5}) == "");
  }
}

TEST_CASE("group_norm: gradients for every number of groups") {
  for (const Shape& shape : {Shape{2, 3, 5, 6}, Shape{3, 6}, Shape{1, 70, 6}, Shape{67, 2, 6}}) {
    for (const int64_t groups : {1, 2, 3, 6}) {
      if (shape == Shape{3, 6} && groups == 6) continue;  // one value a group
      CAPTURE(shape);
      CAPTURE(groups);
      const auto fn = [&](const auto& v) { return group_norm(v[0], groups, v[1], v[2], 1e-2); };
      CHECK(gradcheck(fn,
                      {random_tensor(shape, 1, -2, 3), random_tensor({6}, 2, 0.5, 2),
                       random_tensor({6}, 3)},
                      {.step = 1e-5}) == "");
    }
  }
}

TEST_CASE("layer_norm: closed form, and a mean that is large beside the deviation") {
  const Tensor x = Tensor::from<double>({-1, 1, 3, 5, 5, 5}, {2, 3});
  const double r = std::sqrt(3.0 / 8);
  const Tensor expected = Tensor::from<double>({-2 * r, 0, 2 * r, 0, 0, 0}, {2, 3});
  CHECK(relative_difference(layer_norm(Variable(x), {3}, {}, {}, 0).data().slice(0, 1),
                            expected.slice(0, 1)) < 1e-14);
  CHECK(relative_difference(layer_norm(Variable(x), {3}).data().slice(1, 2),
                            expected.slice(1, 2)) == 0);
  const Tensor far = random_tensor({4, 1000}, 1, 10000, 10001, DType::kF32);
  const Tensor exact = layer_norm(Variable(ops::cast(far, DType::kF64)), {1000}).data();
  // The mean is rounded to f32: 2^-11 at 10,000, beside a deviation of 0.3.
  CHECK(relative_difference(layer_norm(Variable(far), {1000}).data(), exact) < 2e-3);
}

TEST_CASE("layer_norm and group_norm: f32 and bf16 agree with f64, on any number of threads") {
  const int threads = omp_get_max_threads();
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    for (const bool layer : {true, false}) {
      const Shape shape = layer ? Shape{300, 96} : Shape{5, 7, 9, 96};
      const Tensor g = random_tensor(shape, 4, -1, 1, dtype);
      const auto run = [&](DType in) {
        std::vector<Variable> v{
            Variable(ops::cast(random_tensor(shape, 1, -2, 3, dtype), in), true),
            Variable(ops::cast(random_tensor({96}, 2, 0, 2, dtype), in), true),
            Variable(ops::cast(random_tensor({96}, 3, -1, 1, dtype), in), true)};
        const Variable y =
            layer ? layer_norm(v[0], {96}, v[1], v[2]) : group_norm(v[0], 8, v[1], v[2]);
        y.backward(ops::cast(g, in));
        return std::vector<Tensor>{y.data(), *v[0].grad(), *v[1].grad(), *v[2].grad()};
      };
      const auto exact = run(DType::kF64);
      omp_set_num_threads(1);
      const auto single = run(dtype);
      omp_set_num_threads(3);
      const auto several = run(dtype);
      omp_set_num_threads(threads);
      for (size_t i = 0; i < exact.size(); ++i) {
        CAPTURE(i);
        // f32: sums of some hundred terms; bf16: its rounding of the result.
        CHECK(relative_difference(single[i], exact[i]) < (dtype == DType::kF32 ? 2e-6 : 5e-3));
        CHECK(std::memcmp(single[i].raw(), several[i].raw(), single[i].nbytes()) == 0);
      }
    }
  }
}

TEST_CASE("layer_norm and group_norm: a bf16 x takes f32 parameters too") {
  const Variable x(random_tensor({4, 6}, 1, -1, 1, DType::kBF16), true);
  const Variable w(random_tensor({6}, 2, 0, 1, DType::kF32), true);
  layer_norm(x, {6}, w).backward(random_tensor({4, 6}, 3, -1, 1, DType::kBF16));
  CHECK(w.grad()->dtype() == DType::kF32);
}

TEST_CASE("layer_norm and group_norm: what does not fit is refused") {
  const auto of = [](const Shape& shape, DType dtype = DType::kF32) {
    return Variable(Tensor::zeros(shape, dtype));
  };
  CHECK_THROWS_WITH_AS(layer_norm(of({2, 3}), {4}), doctest::Contains("normalized [4], got [2, 3]"),
                       ArgumentError);
  CHECK_THROWS_AS(layer_norm(of({3}), {2, 3}), ArgumentError);
  CHECK_THROWS_AS(layer_norm(of({3}), {}), ArgumentError);
  CHECK_THROWS_WITH_AS(layer_norm(of({2, 3}), {3}, of({2})), doctest::Contains("a weight of [3]"),
                       ArgumentError);
  CHECK_THROWS_AS(layer_norm(of({2, 3}), {3}, of({3}, DType::kF64)), ArgumentError);
  CHECK_THROWS_AS(layer_norm(of({2, 3}, DType::kI64), {3}), ArgumentError);
  CHECK_THROWS_AS(layer_norm(of({2, 3}), {3}, {}, {}, -1), ArgumentError);
  CHECK_THROWS_WITH_AS(group_norm(of({2, 6}), 4), doctest::Contains("4 groups do not divide 6"),
                       ArgumentError);
  CHECK_THROWS_AS(group_norm(of({2, 6}), 0), ArgumentError);
  CHECK_THROWS_AS(group_norm(of({6}), 1), ArgumentError);
}

}  // namespace
}  // namespace lockstep
