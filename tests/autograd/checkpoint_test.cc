#include "lockstep/autograd/checkpoint.h"

#include "lockstep/autograd/ops/activation.h"
#include "lockstep/autograd/ops/dropout.h"
#include "lockstep/autograd/ops/elementwise.h"
#include "lockstep/autograd/ops/matmul.h"
#include "lockstep/autograd/ops/norm.h"
#include "lockstep/autograd/ops/reduce.h"
#include "lockstep/autograd/record.h"
#include "lockstep/tensor/allocator.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>

#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {
namespace {

using testing::gradcheck;
using testing::random_tensor;
using Inputs = std::vector<Variable>;

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && std::memcmp(a.raw(), b.raw(), a.nbytes()) == 0;
}

enum class Way { kPlain, kCheckpoint, kNested };

/// Layers with dropout and batch normalisation, of which the middle ones may be checkpointed. One
/// weight is used inside and outside, and one variable is used inside without being an input.
struct Net {
  Variable shared{random_tensor({16, 16}, 1, -0.5, 0.5, DType::kF32), true};
  Variable inner{random_tensor({16, 16}, 2, -0.5, 0.5, DType::kF32), true};
  Variable weight{random_tensor({16}, 3, 0.5, 1.5, DType::kF32), true};
  Variable bias{random_tensor({16}, 4, -1, 1, DType::kF32), true};
  Variable x{random_tensor({8, 16}, 6, -1, 1, DType::kF32), true};
  Tensor mean = Tensor::zeros({16}, DType::kF32), var = ops::full({16}, 1, DType::kF32);
  Generator rng{5};

  Inputs leaves() const { return {shared, inner, weight, bias, x}; }

  Variable loss(Way way) {
    Variable y = gelu(linear(x, shared));
    const Variable beside = linear(y, shared);  // not an input of the block
    const auto half = [this](const Inputs& v) {
      return dropout(relu(linear(v[0], inner)), 0.3, rng);
    };
    const auto block = [=, this](const Inputs& v) {  // called when this has returned
      Variable z = way == Way::kNested ? checkpoint(half, {v[0]}) : half({v[0]});
      z = batch_norm(z + beside, weight, bias, mean, var, {});
      return dropout(linear(z, shared), 0.2, rng) + v[0];
    };
    y = way == Way::kPlain ? block({y}) : checkpoint(block, {y});
    y = dropout(linear(y, shared), 0.5, rng);
    return sum(y * y);
  }
};

TEST_CASE("checkpoint: gradients, statistics and generators as without, bit for bit") {
  Net plain;
  plain.loss(Way::kPlain).backward();
  for (const Way way : {Way::kCheckpoint, Way::kNested}) {
    Net net;
    std::vector<int> fired(5);
    std::vector<HookHandle> hooks;
    for (size_t i = 0; i < 5; ++i)
      hooks.push_back(net.leaves()[i].on_grad_ready([&, i](const Variable&) { ++fired[i]; }));
    const Variable loss = net.loss(way);
    CHECK(net.rng.state() == plain.rng.state());
    const Tensor mean = ops::clone(net.mean), var = ops::clone(net.var);
    loss.backward();
    for (size_t i = 0; i < 5; ++i) {
      CAPTURE(i);
      CHECK(same_bits(*net.leaves()[i].grad(), *plain.leaves()[i].grad()));
      CHECK(fired[i] == 1);
    }
    CHECK(net.rng.state() == plain.rng.state());
    CHECK(same_bits(net.mean, mean));
    CHECK(same_bits(net.var, var));
    CHECK(same_bits(net.mean, plain.mean));
    CHECK(same_bits(net.var, plain.var));
  }
}

TEST_CASE("checkpoint: gradcheck, and a graph that is walked twice") {
  const auto fn = [](const Inputs& v) {
    return checkpoint([](const Inputs& u) { return tanh(matmul(u[0], u[1])) * sigmoid(u[2]); },
                      {v[0], v[1], v[2]});
  };
  const std::vector<Tensor> x{random_tensor({3, 4}, 1), random_tensor({4, 5}, 2),
                              random_tensor({5}, 3)};
  CHECK(gradcheck(fn, x) == "");
  Variable a(x[0], true), b(x[1], true), c(x[2], true);
  const Variable y = sum(fn({a, b, c}));
  y.backward(true);
  const Tensor once = ops::clone(*a.grad());
  a.zero_grad();
  y.backward(true);
  CHECK(same_bits(*a.grad(), once));
  y.backward();
  CHECK_THROWS_AS(y.backward(), ArgumentError);
}

TEST_CASE("checkpoint: what it uses is awaited from the start, and hooks fire as gradients come") {
  Net net;
  Variable last(random_tensor({16, 16}, 9, -1, 1, DType::kF32), true);
  std::string order;
  std::vector<HookHandle> hooks;
  hooks.push_back(last.on_grad_ready([&](const Variable&) {
    order += "l";
    for (const Variable& leaf : {net.inner, net.weight, net.bias}) CHECK(awaits_gradient(leaf));
  }));
  hooks.push_back(net.weight.on_grad_ready([&](const Variable&) {
    order += "w";
    CHECK(awaits_gradient(net.inner));
    at_end_of_backward([&](bool completed) { order += completed ? "e" : "x"; });
  }));
  hooks.push_back(net.inner.on_grad_ready([&](const Variable&) { order += "i"; }));
  const Variable y = checkpoint(
      [&](const Inputs& v) {
        return batch_norm(linear(v[0], net.inner), net.weight, net.bias, net.mean, net.var, {});
      },
      {net.x});
  sum(linear(y, last)).backward();
  CHECK(order == "lwie");
}

size_t peak_of_training(bool checkpointed) {
  constexpr int kBlocks = 6;
  std::vector<Variable> weights;
  for (int i = 0; i < 4 * kBlocks; ++i)
    weights.emplace_back(random_tensor({64, 64}, static_cast<uint64_t>(i), -0.2, 0.2, DType::kF32),
                         true);
  Variable y(random_tensor({2048, 64}, 99, -1, 1, DType::kF32));
  for (size_t i = 0; i < kBlocks; ++i) {
    const auto block = [&weights, i](const Inputs& v) {
      Variable z = v[0];
      for (size_t k = 0; k < 4; ++k) z = gelu(linear(z, weights[4 * i + k]));
      return z;
    };
    y = checkpointed ? checkpoint(block, {y}) : block({y});
  }
  sum(y).backward();
  return cpu_allocator().stats().peak_bytes_in_use;
}

TEST_CASE("checkpoint: the peak of memory is that of one block") {
  const size_t before = cpu_allocator().stats().peak_bytes_in_use;
  const size_t with = peak_of_training(true);
  const size_t without = peak_of_training(false);
  MESSAGE("peak with ", with >> 10, " KiB, without ", without >> 10, " KiB, before ", before >> 10,
          " KiB");
  CHECK(2 * with < without);
}

TEST_CASE("checkpoint: a plain call under NoGrad, without gradients, and for what does nothing") {
  Variable x(random_tensor({3}, 1), true);
  int calls = 0;
  const auto twice = [&](const Inputs& v) {
    ++calls;
    CHECK(!recomputing());
    return scale(v[0], 2);
  };
  {
    const NoGrad no_grad;
    CHECK(!checkpoint(twice, {x}).requires_grad());
  }
  CHECK(!checkpoint(twice, {x.detach()}).requires_grad());
  CHECK(calls == 2);
  const Variable same = scale(x, 3);
  CHECK(checkpoint([](const Inputs& v) { return v[0]; }, {same}).is(same));
  CHECK(checkpoint([](const Inputs& v) { return v[1]; }, {Variable(), x}).is(x));
  // Of no use to the result: no gradient is promised.
  Variable unused(random_tensor({3}, 2), true);
  const Variable y = checkpoint(
      [&](const Inputs& v) {
        mul(unused, unused);
        {
          const NoGrad no_grad;
          mul(unused, v[0]);
        }
        return scale(v[0], 2);
      },
      {x});
  bool fired = false;
  const HookHandle hook = unused.on_grad_ready([&](const Variable&) { fired = true; });
  sum(y).backward();
  CHECK(!fired);
  CHECK(!unused.grad());
  CHECK(x.grad()->to_vector<double>() == std::vector<double>{2, 2, 2});
}

TEST_CASE("checkpoint: a generator of the function's own is no business of ours") {
  Variable x(random_tensor({100}, 1), true);
  const Variable y = checkpoint(
      [](const Inputs& v) {
        Generator own(3);
        return dropout(v[0], 0.5, own);
      },
      {x});
  y.backward(ops::full({100}, 1, DType::kF64));
  const auto in = x.data().to_vector<double>(), out = y.data().to_vector<double>(),
             g = x.grad()->to_vector<double>();
  for (size_t i = 0; i < 100; ++i) CHECK(g[i] * in[i] == doctest::Approx(out[i]));
}

TEST_CASE("checkpoint: what changed meanwhile is refused, and the next backward is sound") {
  Variable x(random_tensor({3}, 1), true), w(random_tensor({3}, 2), true);
  bool odd = false;
  const auto block = [&](const Inputs& v) {
    return odd && recomputing() ? scale(v[0], 2) : v[0] * w;
  };
  const auto refused = [&](const std::function<void()>& change, const char* what) {
    CAPTURE(what);
    const Variable y = sum(checkpoint(block, {x}));
    change();
    CHECK_THROWS_WITH_AS(y.backward(), doctest::Contains(what), ArgumentError);
    odd = false;
  };
  refused([&] { ops::scale(w.mutable_data(), 2); }, "changed in place");
  refused([&] { ops::scale(x.mutable_data(), 2); }, "changed in place");
  refused([&] { odd = true; }, "did not do the same");
  int fired = 0;
  const HookHandle hook = w.on_grad_ready([&](const Variable&) { ++fired; });
  x.zero_grad();
  w.zero_grad();
  sum(checkpoint(block, {x})).backward();
  CHECK(fired == 1);
  CHECK(same_bits(*w.grad(), x.data()));
  CHECK_THROWS_WITH_AS(checkpoint([](const Inputs&) { return Variable(); }, {x}),
                       doctest::Contains("undefined"), ArgumentError);
}

}  // namespace
}  // namespace lockstep
