// Autocast itself: whose scopes they are, what a checkpoint computes again, and where gradients
// land.
#include "lockstep/autograd/autocast.h"

#include "lockstep/autograd/checkpoint.h"
#include "lockstep/autograd/ops/activation.h"
#include "lockstep/autograd/ops/cast.h"
#include "lockstep/autograd/ops/conv.h"
#include "lockstep/autograd/ops/dropout.h"
#include "lockstep/autograd/ops/elementwise.h"
#include "lockstep/autograd/ops/loss.h"
#include "lockstep/autograd/ops/matmul.h"
#include "lockstep/autograd/ops/norm.h"
#include "lockstep/autograd/ops/pool.h"
#include "lockstep/autograd/ops/reduce.h"
#include "lockstep/autograd/record.h"
#include "lockstep/autograd/shadow.h"
#include "lockstep/tensor/allocator.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>

#include <cstring>
#include <thread>
#include <vector>

namespace lockstep {
namespace {

using testing::random_tensor;
using X = std::vector<Variable>;

TEST_CASE("a scope ends, nests, and is the thread's own") {
  const Variable x(random_tensor({4, 4}, 1, -1, 1, DType::kF32));
  const auto type = [&] { return matmul(x, x).dtype(); };
  CHECK(type() == DType::kF32);
  {
    const Autocast mixed(DType::kBF16);
    CHECK(type() == DType::kBF16);
    DType elsewhere = DType::kBF16, there = DType::kF32;
    std::thread other([&] {
      elsewhere = Autocast::current();
      const Autocast its_own(DType::kBF16);
      there = Autocast::current();
    });
    other.join();
    CHECK(elsewhere == DType::kF32);
    CHECK(there == DType::kBF16);
    {
      const Autocast full(DType::kF32);
      CHECK(type() == DType::kF32);
    }
    CHECK(type() == DType::kBF16);
    CHECK_THROWS_AS(Autocast(DType::kF16), ArgumentError);
    CHECK(type() == DType::kBF16);
    // f64 is left alone.
    const Variable d(random_tensor({4, 4}, 1), true);
    CHECK(sum(matmul(d, d)).dtype() == DType::kF64);
  }
  CHECK(type() == DType::kF32);
  try {
    const Autocast mixed(DType::kBF16);
    throw Error("on purpose");
  } catch (const Error&) {
    CHECK(type() == DType::kF32);
  }
  // Operands of two types are refused outside of a scope.
  CHECK_THROWS_AS(add(x, cast(x, DType::kBF16)), ArgumentError);
}

TEST_CASE("a checkpoint computes again in the precision of forward, bit for bit") {
  const auto gradients = [](bool checkpointed) {
    const Variable x(random_tensor({8, 16}, 1, -1, 1, DType::kF32), true);
    const Variable w(random_tensor({16, 16}, 2, -0.5, 0.5, DType::kF32), true);
    Generator rng(5);
    const auto block = [&](const X& v) {
      return dropout(gelu(linear(layer_norm(v[0], {16}), w)), 0.3, rng) + v[0];
    };
    Variable loss;
    {
      const Autocast mixed(DType::kBF16);
      const Variable y = linear(x, w);
      loss = sum(checkpointed ? checkpoint(block, {y}) : block({y}));
    }
    loss.backward();
    return std::vector<Tensor>{loss.data(), *x.grad(), *w.grad()};
  };
  const auto plain = gradients(false), again = gradients(true);
  for (size_t i = 0; i < plain.size(); ++i) {
    REQUIRE(plain[i].dtype() == DType::kF32);
    CHECK(std::memcmp(plain[i].raw(), again[i].raw(), plain[i].nbytes()) == 0);
  }
}

TEST_CASE("gradients land in bound f32 memory without a copy; a warm step allocates nothing") {
  Tensor arena = Tensor::zeros({64 * 3 * 3 * 16 + 32 * 64 + 64}, DType::kF32);
  auto bound = [&, at = int64_t{0}](const Shape& shape) mutable {
    Variable v(random_tensor(shape, 7, -1, 1, DType::kF32), true);
    v.bind_grad(arena.slice(at, at + shape.numel()).reshape(shape));
    at += shape.numel();
    return v;
  };
  const Variable kernel = bound({64, 3, 3, 16}), weight = bound({32, 64}), bias = bound({32});
  const Variable x(random_tensor({4, 8, 8, 16}, 8, -1, 1, DType::kF32));
  const Tensor targets = Tensor::from<int64_t>({1, 2, 3, 0}, {4});
  const auto step = [&] {
    Variable loss;
    {
      const Autocast mixed(DType::kBF16);
      const Variable y = relu(conv2d(x, kernel, {}, {.padding = {1, 1}}));
      loss = cross_entropy(linear(global_avg_pool2d(y), weight, bias), targets);
    }
    loss.backward();
  };
  step();
  step();
  const uint64_t misses = cpu_allocator().stats().misses;
  const uint64_t copied = gradient_bytes_copied();
  const uint64_t converted = Shadow::conversions();
  step();
  CHECK(cpu_allocator().stats().misses == misses);
  CHECK(gradient_bytes_copied() == copied);
  CHECK(Shadow::conversions() == converted);  // nothing has changed a parameter
  CHECK(weight.grad()->shares_memory(arena));
}

}  // namespace
}  // namespace lockstep
