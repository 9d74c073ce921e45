#include "lockstep/autograd/ops/index.h"

#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tensor/ops/index.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>
#include <omp.h>

#include <vector>

namespace lockstep {
namespace {

using testing::gradcheck;
using testing::random_tensor;
using testing::relative_difference;

Tensor random_index(const Shape& shape, int64_t extent, uint64_t seed) {
  return ops::cast(random_tensor(shape, seed, 0, static_cast<double>(extent)), DType::kI64);
}

TEST_CASE("gather and scatter_add: gradients along every dimension, with smaller indexes") {
  struct {
    Shape x, index;
    int dim;
  } const cases[] = {{{5}, {7}, 0},
                     {{5}, {2}, -1},
                     {{3, 4}, {3, 6}, 1},
                     {{3, 4}, {5, 4}, 0},
                     {{3, 4}, {2, 3}, 0},
                     {{2, 3, 4}, {2, 5, 4}, 1},
                     {{2, 3, 4}, {1, 2, 3}, 2},
                     {{2, 3, 4}, {4, 3, 4}, -3},
                     {{2, 3}, {0, 3}, 0},
                     {{1, 70, 3}, {1, 90, 3}, 1}};
  for (const auto& c : cases) {
    CAPTURE(c.x);
    CAPTURE(c.index);
    CAPTURE(c.dim);
    const Tensor index = random_index(c.index, c.x.dim(c.dim), 1);
    CHECK(gradcheck([&](const auto& v) { return gather(v[0], c.dim, index); },
                    {random_tensor(c.x, 2)}) == "");
    CHECK(gradcheck([&](const auto& v) { return scatter_add(v[0], c.dim, index, v[1]); },
                    {random_tensor(c.x, 2), random_tensor(c.index, 3)}) == "");
  }
}

TEST_CASE("gather and scatter_add: values") {
  const Tensor x = Tensor::from<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  const Tensor index = Tensor::from<int64_t>({2, 0, 1, 1}, {2, 2});
  CHECK(ops::gather(x, 1, index).to_vector<float>() == std::vector<float>{3, 1, 5, 5});
  Tensor y = Tensor::zeros({2, 3}, DType::kF32);
  ops::scatter_add(Tensor::from<float>({1, 2, 4, 8}, {2, 2}), 1, index, y);
  CHECK(y.to_vector<float>() == std::vector<float>{2, 0, 1, 0, 12, 0});
}

TEST_CASE("embedding: gradients, repeated ids, padding, any shape of ids") {
  for (const Shape& ids_shape : {Shape{}, Shape{9}, Shape{2, 5}, Shape{2, 1, 3}, Shape{0}}) {
    for (const int64_t width : {1, 3, 300}) {
      CAPTURE(ids_shape);
      const Tensor ids = random_index(ids_shape, 4, 5);
      const auto fn = [&](const auto& v) { return embedding(v[0], ids); };
      CHECK(gradcheck(fn, {random_tensor({6, width}, 1)}) == "");
    }
  }
  Variable weight(random_tensor({4, 2}, 1, -1, 1, DType::kF32), true);
  const Tensor ids = Tensor::from<int64_t>({1, 3, 1, 0}, {4});
  const Variable y = embedding(weight, ids, {.padding_idx = 3});
  CHECK(y.shape() == Shape{4, 2});
  CHECK(y.data().data<float>()[2] == weight.data().data<float>()[6]);  // padding is looked up
  y.backward(Tensor::from<float>({1, 2, 10, 20, 3, 4, 5, 6}, {4, 2}));
  CHECK(weight.grad()->to_vector<float>() == std::vector<float>{5, 6, 4, 6, 0, 0, 0, 0});
  weight.zero_grad();
  embedding(weight, ids, {.padding_idx = 1})
      .backward(Tensor::from<float>({1, 2, 10, 20, 3, 4, 5, 6}, {4, 2}));
  CHECK(weight.grad()->to_vector<float>() == std::vector<float>{5, 6, 0, 0, 0, 0, 10, 20});
}

TEST_CASE("embedding: its gradient goes straight into a slot, with the same bits on any threads") {
  const int threads = omp_get_max_threads();
  const Tensor ids = random_index({40, 50}, 700, 3);
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    Variable weight(random_tensor({1000, 65}, 1, -1, 1, dtype), true);
    Tensor slot = Tensor::empty({1000, 65}, dtype);
    const Tensor grad = random_tensor({40, 50, 65}, 2, -1, 1, dtype);
    weight.bind_grad(slot);
    std::vector<std::vector<uint8_t>> bits;
    for (const int count : {1, 2, 5}) {
      omp_set_num_threads(count);
      ops::fill(slot, 77);  // every row is overwritten
      weight.zero_grad();
      embedding(weight, ids).backward(grad);
      const auto* bytes = reinterpret_cast<const uint8_t*>(slot.raw());
      bits.emplace_back(bytes, bytes + slot.nbytes());
      CHECK(bits.back() == bits.front());
    }
    omp_set_num_threads(threads);
    CHECK(weight.grad()->shares_memory(slot));
    Variable exact(ops::cast(weight.data(), DType::kF64), true);
    embedding(exact, ids).backward(ops::cast(grad, DType::kF64));
    // Added up in f32 (a few terms a row), rounded once to bf16.
    CHECK(relative_difference(slot, *exact.grad()) < (dtype == DType::kF32 ? 1e-6 : 4e-3));
  }
}

TEST_CASE("gather, scatter_add and embedding: what does not fit is refused") {
  const Variable x(Tensor::zeros({2, 3}, DType::kF32));
  const auto index = [](std::vector<int64_t> v, const Shape& s) { return Tensor::from(v, s); };
  CHECK_THROWS_WITH_AS(gather(x, 1, index({0, 3}, {2, 1})),
                       doctest::Contains("index number 1 is 3, wanted one in [0, 3)"),
                       ArgumentError);
  CHECK_THROWS_AS(gather(x, 1, index({0, -1}, {2, 1})), ArgumentError);
  CHECK_THROWS_AS(gather(x, 1, index({0, 0, 0}, {3, 1})), ArgumentError);
  CHECK_THROWS_AS(gather(x, 2, index({0, 0}, {2, 1})), ArgumentError);
  CHECK_THROWS_AS(gather(x, 1, index({0}, {1})), ArgumentError);
  CHECK_THROWS_WITH_AS(gather(x, 1, Tensor::zeros({2, 1}, DType::kI32)),
                       doctest::Contains("in i64"), ArgumentError);
  CHECK_THROWS_AS(
      scatter_add(x, 1, index({0, 3}, {2, 1}), Variable(Tensor::zeros({2, 1}, DType::kF32))),
      ArgumentError);
  CHECK_THROWS_AS(
      scatter_add(x, 1, index({0, 1}, {2, 1}), Variable(Tensor::zeros({2, 1}, DType::kF64))),
      ArgumentError);
  CHECK_THROWS_WITH_AS(embedding(x, index({0, 5, 1}, {3})),
                       doctest::Contains("id number 1 is 5, wanted one in [0, 2)"), ArgumentError);
  CHECK_THROWS_AS(embedding(x, index({-1}, {1})), ArgumentError);
  CHECK_THROWS_AS(embedding(x, index({0}, {1}), {.padding_idx = 2}), ArgumentError);
  CHECK_THROWS_AS(embedding(Variable(Tensor::zeros({3}, DType::kF32)), index({0}, {1})),
                  ArgumentError);
}

}  // namespace
}  // namespace lockstep
