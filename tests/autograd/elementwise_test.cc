#include "lockstep/autograd/ops/elementwise.h"

#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>
#include <omp.h>

#include <utility>
#include <vector>

namespace lockstep {
namespace {

using testing::gradcheck;
using testing::random_tensor;
using testing::relative_difference;

using Binary = Variable (*)(const Variable&, const Variable&);
const std::vector<std::pair<const char*, Binary>> kBinaries = {
    {"add", add}, {"sub", sub}, {"mul", mul}, {"div", div}};

// Equal, scalar, trailing, leading, inner, both sides, alternating, nothing in common, empty.
const std::vector<std::pair<Shape, Shape>> kPairs = {{{3, 5}, {3, 5}},
                                                     {{3, 5}, {}},
                                                     {{}, {3, 5}},
                                                     {{7}, {1}},
                                                     {{3, 5}, {5}},
                                                     {{3, 5}, {1, 5}},
                                                     {{3, 5}, {3, 1}},
                                                     {{3, 1}, {1, 5}},
                                                     {{2, 3, 5}, {2, 1, 5}},
                                                     {{2, 1, 5}, {3, 1}},
                                                     {{5}, {2, 3, 1}},
                                                     {{2, 3, 2, 3}, {1, 3, 1, 3}},
                                                     {{2, 3, 2, 3}, {2, 1, 2, 1}},
                                                     {{1, 1}, {1}},
                                                     {{}, {}},
                                                     {{0, 5}, {5}},
                                                     {{3, 0}, {3, 1}},
                                                     {{1, 1, 1, 1, 1, 1, 2, 3}, {2, 1}}};

/// The definition of broadcasting, element by element.
std::vector<double> expected(const char* op, const Tensor& a, const Tensor& b, const Shape& shape) {
  const auto at = [&](const Tensor& x, int64_t index) {
    int64_t offset = 0;
    int64_t step = 1;
    for (int i = 1; i <= shape.ndim(); ++i) {
      const int64_t coordinate = index % shape.dim(-i);
      index /= shape.dim(-i);
      if (i > x.ndim()) continue;
      if (x.dim(-i) != 1) offset += coordinate * step;
      step *= x.dim(-i);
    }
    return x.data<double>()[offset];
  };
  std::vector<double> y;
  for (int64_t i = 0; i < shape.numel(); ++i) {
    const double u = at(a, i);
    const double v = at(b, i);
    const std::string name = op;
    y.push_back(name == "add" ? u + v : name == "sub" ? u - v : name == "mul" ? u * v : u / v);
  }
  return y;
}

TEST_CASE("binary ops: values and gradients with every pattern of broadcasting") {
  for (const auto& [name, op] : kBinaries) {
    for (const auto& [shape_a, shape_b] : kPairs) {
      CAPTURE(name);
      CAPTURE(shape_a.to_string());
      CAPTURE(shape_b.to_string());
      const Tensor a = random_tensor(shape_a, 1, 0.5, 2.0);
      const Tensor b = random_tensor(shape_b, 2, 0.5, 2.0);
      const Tensor y = op(Variable(a), Variable(b)).data();
      CHECK(y.to_vector<double>() == expected(name, a, b, y.shape()));
      CHECK(gradcheck([f = op](const auto& x) { return f(x[0], x[1]); }, {a, b}) == "");
      CHECK(gradcheck([f = op](const auto& x) { return f(x[0], x[0]); }, {a}) == "");
    }
  }
}

TEST_CASE("scale, add_scalar, neg and the operators") {
  const Tensor x = random_tensor({3, 5}, 1);
  CHECK(gradcheck([](const auto& v) { return scale(v[0], -2.5); }, {x}) == "");
  CHECK(gradcheck([](const auto& v) { return add_scalar(v[0], 3); }, {x}) == "");
  CHECK(gradcheck([](const auto& v) { return (v[0] * v[0] - v[0]) / add_scalar(v[0] + -v[0], 2); },
                  {x}) == "");
  const Variable a(Tensor::from<float>({1, -2}, {2}));
  CHECK(scale(a, 3).data().to_vector<float>() == std::vector<float>{3, -6});
  CHECK(add_scalar(a, 3).data().to_vector<float>() == std::vector<float>{4, 1});
  CHECK((-a).data().to_vector<float>() == std::vector<float>{-1, 2});
}

/// Gradient of the first or second operand, for upstream gradient `g`.
std::vector<Tensor> gradients(Binary op, const Tensor& a, const Tensor& b, const Tensor& g) {
  const Variable va(a, true);
  const Variable vb(b, true);
  op(va, vb).backward(g);
  return {*va.grad(), *vb.grad()};
}

TEST_CASE("f32 and bf16 agree with f64 on shapes that take the cut, the column and the row sums") {
  const std::vector<std::pair<Shape, Shape>> pairs = {
      {{300, 33}, {33}},     {{3000, 33}, {33}},           {{3, 7000}, {3, 1}},
      {{70000}, {}},         {{4, 500, 200}, {4, 1, 200}}, {{6, 50, 40, 9}, {50, 1, 9}},
      {{130, 300}, {1, 300}}};
  for (const auto& [name, op] : kBinaries) {
    for (const auto& [shape_a, shape_b] : pairs) {
      CAPTURE(name);
      CAPTURE(shape_a.to_string());
      const Tensor a = random_tensor(shape_a, 1, 0.5, 2.0, DType::kBF16);
      const Tensor b = random_tensor(shape_b, 2, 0.5, 2.0, DType::kBF16);
      const Tensor g = random_tensor(shape_a, 3, -1.0, 2.0, DType::kBF16);
      const auto run = [&, f = op](DType dtype) {
        return gradients(f, ops::cast(a, dtype), ops::cast(b, dtype), ops::cast(g, dtype));
      };
      const auto exact = run(DType::kF64);
      const auto single = run(DType::kF32);
      const auto half = run(DType::kBF16);
      for (size_t i = 0; i < 2; ++i) {
        // f32: runs of at most 64 terms are added up in f32, a rounding of 2^-24 each. bf16: one
        // rounding, 2^-9.
        CHECK(relative_difference(single[i], exact[i]) < 2e-6);
        CHECK(relative_difference(half[i], exact[i]) < 4e-3);
      }
    }
  }
}

TEST_CASE("div: the gradient of a divisor whose square is beyond f32") {
  const Tensor ones = Tensor::from<float>({1, 1}, {2});
  const Tensor v = Tensor::from<float>({1e-25f, 1e25f}, {2});
  // -u / v^2 with u = v.
  const auto grad = gradients(div, v, v, ones)[1].to_vector<float>();
  CHECK(grad[0] == doctest::Approx(-1e25f));
  CHECK(grad[1] * 1e25f == doctest::Approx(-1));
}

TEST_CASE("the number of threads does not change a bit") {
  const int threads = omp_get_max_threads();
  for (const Shape& small : {Shape{33}, Shape{1, 33}, Shape{}, Shape{3000, 1}}) {
    const Tensor a = random_tensor({3000, 33}, 1, 0.5, 2.0, DType::kF32);
    const Tensor b = random_tensor(small, 2, 0.5, 2.0, DType::kF32);
    std::vector<std::vector<float>> seen;
    for (int n : {1, 2, 3}) {
      omp_set_num_threads(n);
      seen.push_back(gradients(mul, a, b, a)[1].to_vector<float>());
    }
    CHECK(seen[0] == seen[1]);
    CHECK(seen[0] == seen[2]);
  }
  omp_set_num_threads(threads);
}

TEST_CASE("what does not fit is refused") {
  const auto f32 = [](const Shape& shape) { return Variable(Tensor::zeros(shape, DType::kF32)); };
  CHECK_THROWS_WITH_AS(add(f32({2, 3}), f32({2})), doctest::Contains("add: shapes [2, 3] and [2]"),
                       ArgumentError);
  CHECK_THROWS_WITH_AS(mul(f32({2}), Variable(Tensor::zeros({2}, DType::kF64))),
                       doctest::Contains("cast"), ArgumentError);
  const Variable integers(Tensor::zeros({2}, DType::kI64));
  CHECK_THROWS_AS(add(integers, integers), ArgumentError);
}

}  // namespace
}  // namespace lockstep
