#include "lockstep/autograd/ops/matmul.h"

#include "lockstep/autograd/record.h"
#include "lockstep/tensor/allocator.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

namespace lockstep {
namespace {

using testing::gradcheck;
using testing::random_tensor;
using testing::relative_difference;

Shape swapped(Shape shape, bool swap) {
  const int64_t rows = shape.dim(-2);
  const int64_t cols = shape.dim(-1);
  return swap ? shape.with_dim(-2, cols).with_dim(-1, rows) : shape;
}

/// The definition, in f64: a is [batch, m, k] or its transpose.
std::vector<double> by_definition(const Tensor& a, const Tensor& b, MatmulOptions o, int64_t batch,
                                  int64_t m, int64_t n, int64_t k) {
  const auto x = a.to_vector<double>();
  const auto y = b.to_vector<double>();
  std::vector<double> out;
  for (int64_t t = 0; t < batch; ++t) {
    const int64_t a0 = a.ndim() > 2 ? t * m * k : 0;
    const int64_t b0 = b.ndim() > 2 ? t * n * k : 0;
    for (int64_t i = 0; i < m; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (int64_t l = 0; l < k; ++l) {
          sum += x[static_cast<size_t>(a0 + (o.transpose_a ? l * m + i : i * k + l))] *
                 y[static_cast<size_t>(b0 + (o.transpose_b ? j * k + l : l * n + j))];
        }
        out.push_back(sum);
      }
    }
  }
  return out;
}

struct Extents {
  int64_t m, n, k;
};

const MatmulOptions kTransposes[] = {{false, false}, {true, false}, {false, true}, {true, true}};

TEST_CASE("matmul: f64 is the definition, over tile borders, all transposes and batches") {
  for (const Extents e : {Extents{1, 1, 1}, {3, 5, 7}, {33, 65, 97}, {1, 70, 200}, {40, 1, 3}}) {
    for (const MatmulOptions o : kTransposes) {
      for (const bool batch_a : {false, true}) {
        for (const bool batch_b : {false, true}) {
          const Shape a_shape = batch_a ? Shape{2, e.m, e.k} : Shape{e.m, e.k};
          const Shape b_shape = batch_b ? Shape{2, e.k, e.n} : Shape{e.k, e.n};
          const Tensor a = random_tensor(swapped(a_shape, o.transpose_a), 1);
          const Tensor b = random_tensor(swapped(b_shape, o.transpose_b), 2);
          const Tensor y = ops::matmul(a, b, o);
          const auto expected = by_definition(a, b, o, batch_a || batch_b ? 2 : 1, e.m, e.n, e.k);
          // Only the order of addition differs.
          CHECK(relative_difference(y, Tensor::from(expected, y.shape())) < 1e-14);
        }
      }
    }
  }
}

TEST_CASE("matmul: gradients, all transposes, batched and broadcast operands") {
  for (const MatmulOptions o : kTransposes) {
    const auto fn = [o](const std::vector<Variable>& x) { return matmul(x[0], x[1], o); };
    const auto check_shapes = [&](Shape a, Shape b) {
      CAPTURE(a);
      CAPTURE(b);
      CAPTURE(o.transpose_a);
      CAPTURE(o.transpose_b);
      const Tensor x = random_tensor(swapped(a, o.transpose_a), 3);
      const Tensor y = random_tensor(swapped(b, o.transpose_b), 4);
      CHECK(gradcheck(fn, {x, y}) == "");
    };
    check_shapes({3, 5}, {5, 2});
    check_shapes({1, 1}, {1, 1});
    check_shapes({3, 4, 5}, {3, 5, 2});
    check_shapes({2, 3, 4, 5}, {2, 3, 5, 1});
    check_shapes({3, 4, 5}, {5, 2});
    check_shapes({4, 5}, {3, 5, 2});
    check_shapes({4, 0}, {0, 2});
    check_shapes({0, 4, 3}, {3, 2});
  }
  // One variable on both sides.
  CHECK(gradcheck([](const auto& x) { return matmul(x[0], x[0]); }, {random_tensor({4, 4}, 5)}) ==
        "");
}

TEST_CASE("linear: gradients with and without bias") {
  const auto with_bias = [](const auto& x) { return linear(x[0], x[1], x[2]); };
  const auto without = [](const auto& x) { return linear(x[0], x[1]); };
  for (const Shape& shape : {Shape{5}, Shape{1, 5}, Shape{7, 5}, Shape{2, 3, 5}, Shape{0, 5}}) {
    const Tensor x = random_tensor(shape, 6);
    CHECK(gradcheck(with_bias, {x, random_tensor({3, 5}, 7), random_tensor({3}, 8)}) == "");
    CHECK(gradcheck(without, {x, random_tensor({3, 5}, 7)}) == "");
    // The gradients of weight and bias are computed together, or either alone.
    const Tensor w = random_tensor({3, 5}, 7), b = random_tensor({3}, 8);
    const auto weight = [&](const auto& v) { return linear(Variable(x), v[0], Variable(b)); };
    const auto bias = [&](const auto& v) { return linear(Variable(x), Variable(w), v[0]); };
    CHECK(gradcheck(weight, {w}) == "");
    CHECK(gradcheck(bias, {b}) == "");
  }
}

/// Forward and both gradients of matmul in `dtype`, and the same in f64 from the same (rounded)
/// operands.
double difference_from_f64(Shape a_shape, Shape b_shape, MatmulOptions o, DType dtype) {
  const Tensor operands[] = {random_tensor(swapped(a_shape, o.transpose_a), 9, -1, 1, dtype),
                             random_tensor(swapped(b_shape, o.transpose_b), 10, -1, 1, dtype)};
  Tensor grad_y;
  std::vector<Tensor> results[2];
  for (const DType in : {dtype, DType::kF64}) {
    const Variable a(ops::cast(operands[0], in), true);
    const Variable b(ops::cast(operands[1], in), true);
    const Variable y = matmul(a, b, o);
    if (!grad_y.defined()) grad_y = random_tensor(y.shape(), 11, -1, 1, dtype);
    y.backward(ops::cast(grad_y, in), true);
    y.backward(ops::cast(grad_y, in));  // the second is added
    results[in == DType::kF64] = {y.data(), *a.grad(), *b.grad()};
  }
  double worst = 0;
  for (int i = 0; i < 3; ++i)
    worst = std::max(worst, relative_difference(results[0][i], results[1][i]));
  return worst;
}

TEST_CASE("matmul: f32 and bf16 by oneDNN agree with f64") {
  for (const Extents e : {Extents{1, 1, 1},
                          {1, 17, 3},
                          {19, 1, 5},
                          {3, 5, 1},
                          {31, 33, 65},
                          {64, 64, 64},
                          {2, 3, 5000},
                          {128, 40, 7}}) {
    for (const MatmulOptions o : kTransposes) {
      for (const int batch : {0, 1, 2, 3}) {
        CAPTURE(e.m);
        CAPTURE(e.n);
        CAPTURE(e.k);
        CAPTURE(batch);
        CAPTURE(o.transpose_a);
        CAPTURE(o.transpose_b);
        const Shape a = batch & 1 ? Shape{3, e.m, e.k} : Shape{e.m, e.k};
        const Shape b = batch & 2 ? Shape{3, e.k, e.n} : Shape{e.k, e.n};
        // A sum of k products of size <= 1 is of size sqrt(k); rounding errors of 2^-24 (f32) add
        // up to about as much again relative to it, for the few-element results here relative to a
        // possibly small maximum.
        CHECK(difference_from_f64(a, b, o, DType::kF32) < 1e-5);
        // bf16 results are rounded to 2^-9, three times where a gradient is added and summed over a
        // batch.
        CHECK(difference_from_f64(a, b, o, DType::kBF16) < 1.2e-2);
      }
    }
  }
}

TEST_CASE("linear: f32 and bf16 agree with f64") {
  for (const Extents e : {Extents{1, 1, 1}, {5, 3, 7}, {64, 1000, 512}, {33, 130, 3000}}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      std::vector<Tensor> inputs{random_tensor({e.m, e.k}, 12, -1, 1, dtype),
                                 random_tensor({e.n, e.k}, 13, -1, 1, dtype),
                                 random_tensor({e.n}, 14, -1, 1, dtype)};
      const Tensor grad_y = random_tensor({e.m, e.n}, 15, -1, 1, dtype);
      std::vector<Tensor> results[2];
      for (const DType in : {dtype, DType::kF64}) {
        std::vector<Variable> v;
        for (const Tensor& input : inputs) v.emplace_back(ops::cast(input, in), true);
        const Variable y = linear(v[0], v[1], v[2]);
        y.backward(ops::cast(grad_y, in));
        results[in == DType::kF64] = {y.data(), *v[0].grad(), *v[1].grad(), *v[2].grad()};
      }
      for (int i = 0; i < 4; ++i) {
        CAPTURE(i);
        CHECK(relative_difference(results[0][i], results[1][i]) <
              (dtype == DType::kF32 ? 1e-5 : 4e-3));
      }
    }
  }
}

TEST_CASE(
    "linear: gradients land in bound memory without a copy, and a warm step allocates nothing") {
  Tensor arena = Tensor::zeros({8 * 16 + 8}, DType::kF32);
  Variable weight(random_tensor({8, 16}, 16, -1, 1, DType::kF32), true);
  Variable bias(random_tensor({8}, 17, -1, 1, DType::kF32), true);
  weight.bind_grad(arena.slice(0, 128).reshape({8, 16}));
  bias.bind_grad(arena.slice(128, 136));
  const Variable x(random_tensor({4, 16}, 18, -1, 1, DType::kF32), true);
  const Tensor grad_y = random_tensor({4, 8}, 19, -1, 1, DType::kF32);
  const auto step = [&] { linear(x, weight, bias).backward(grad_y); };
  step();
  step();
  const uint64_t misses = cpu_allocator().stats().misses;
  const uint64_t copied = gradient_bytes_copied();
  step();
  CHECK(cpu_allocator().stats().misses == misses);
  CHECK(gradient_bytes_copied() == copied);
  CHECK(weight.grad()->shares_memory(arena));
}

TEST_CASE("matmul and linear refuse what does not fit") {
  const auto zeros = [](Shape s, DType d = DType::kF32) { return Variable(Tensor::zeros(s, d)); };
  CHECK_THROWS_WITH_AS(matmul(zeros({2, 3}), zeros({4, 2})), doctest::Contains("inner extents"),
                       ArgumentError);
  CHECK_THROWS_AS(matmul(zeros({3}), zeros({3, 2})), ArgumentError);
  CHECK_THROWS_AS(matmul(zeros({2, 2, 3}), zeros({3, 3, 2})), ArgumentError);
  CHECK_THROWS_AS(matmul(zeros({2, 2}), zeros({2, 2}, DType::kF64)), ArgumentError);
  CHECK_THROWS_AS(matmul(zeros({2, 2}, DType::kI64), zeros({2, 2}, DType::kI64)), ArgumentError);
  CHECK_THROWS_AS(linear(zeros({2, 3}), zeros({4, 2})), ArgumentError);
  CHECK_THROWS_AS(linear(zeros({2, 3}), zeros({4, 3}), zeros({3})), ArgumentError);
  Tensor out = Tensor::zeros({5, 5}, DType::kF32);
  CHECK_THROWS_AS(ops::matmul(zeros({2, 3}).data(), zeros({3, 2}).data(), {}, {out}),
                  ArgumentError);
  const auto weight_and_bias = [&](const Tensor& weight, const Tensor& bias) {
    ops::linear_backward_weight(zeros({2, 3}).data(), zeros({2, 4}).data(), {weight}, {bias});
  };
  const Tensor weight = zeros({3, 4}).data(), bias = zeros({3}).data();
  weight_and_bias(weight, bias);
  CHECK_THROWS_WITH_AS(weight_and_bias(weight.reshape({4, 3}), bias),
                       doctest::Contains("wanted [rows, out] and [rows, in]"), ArgumentError);
  CHECK_THROWS_AS(weight_and_bias(weight, zeros({4}).data()), ArgumentError);
  CHECK_THROWS_AS(weight_and_bias(zeros({3, 4}, DType::kBF16).data(), bias), ArgumentError);
}

}  // namespace
}  // namespace lockstep
