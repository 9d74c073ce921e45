#include "lockstep/autograd/record.h"
#include "lockstep/autograd/variable.h"

#include "lockstep/autograd/ops/activation.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace lockstep {
namespace {

using testing::gradcheck;
using testing::random_tensor;

/// a + b by give(): both gradients are grad_out itself.
Variable plus(const Variable& a, const Variable& b) {
  Tensor sum = ops::clone(a.data());
  ops::add_scaled(b.data(), 1.0, sum);
  return record("plus", sum, {a, b}, [](const Tensor& grad, GradSink& sink) {
    for (int i : {0, 1}) {
      if (sink.wants(i)) sink.give(i, grad);
    }
  });
}

/// factor * x, written through dest().
Variable times(const Variable& x, double factor, double gradient_factor) {
  Tensor y = ops::clone(x.data());
  ops::scale(y, factor);
  return record("times", y, {x}, [gradient_factor](const Tensor& grad, GradSink& sink) {
    Dest dest = sink.dest(0);
    if (!dest.accumulate) ops::fill(dest.out, 0.0);
    ops::add_scaled(grad, gradient_factor, dest.out);
  });
}

Variable leaf(std::vector<double> values) {
  const auto n = static_cast<int64_t>(values.size());
  return Variable(Tensor::from(values, {n}), true);
}

std::vector<double> grad_of(const Variable& x) { return x.grad()->to_vector<double>(); }

TEST_CASE("the gradient checker finds a wrong gradient") {
  const Tensor x = random_tensor({4}, 3);
  CHECK(gradcheck([](const auto& v) { return times(v[0], 3, 3); }, {x}) == "");
  CHECK(gradcheck([](const auto& v) { return times(v[0], 3, 3.0001); }, {x}) != "");
}

TEST_CASE("the measure of difference does not overlook infinities and NaN") {
  const double inf = std::numeric_limits<double>::infinity();
  const auto difference = [](std::vector<double> a, std::vector<double> b) {
    return testing::relative_difference(Tensor::from(a, {2}), Tensor::from(b, {2}));
  };
  CHECK(difference({inf, 1}, {inf, 2}) == 0.5);
  CHECK(difference({inf, 1}, {inf, 1}) == 0);
  CHECK(difference({inf, 1}, {-inf, 1}) == inf);
  CHECK(difference({3, 1}, {inf, 1}) == inf);
  CHECK(difference({std::nan(""), 1}, {std::nan(""), 1}) == inf);
}

TEST_CASE("contributions add up, also where gradients share memory") {
  const Variable x = leaf({1, 2});
  const Variable y = plus(x, x);           // 2x
  const Variable z = plus(plus(y, x), y);  // 5x: y's two gradients and x's share grad_out
  z.backward(Tensor::from<double>({1, 10}, {2}));
  CHECK(grad_of(x) == std::vector<double>{5, 50});
}

TEST_CASE("a second backward adds, zero_grad forgets, grad is empty before") {
  const Variable x = leaf({1});
  CHECK(!x.grad());
  times(x, 2, 2).backward();
  times(x, 2, 2).backward();
  CHECK(grad_of(x) == std::vector<double>{4});
  Variable(x).zero_grad();
  CHECK(!x.grad());
  times(x, 3, 3).backward();
  CHECK(grad_of(x) == std::vector<double>{3});
}

TEST_CASE("a bound slot receives the gradient in place; only give() copies") {
  Tensor arena = Tensor::zeros({4}, DType::kF64);
  Variable x = leaf({1, 2});
  x.bind_grad(arena.slice(1, 3));
  const uint64_t before = gradient_bytes_copied();
  times(x, 2, 2).backward(Tensor::from<double>({1, 1}, {2}));
  CHECK(arena.to_vector<double>() == std::vector<double>{0, 2, 2, 0});
  CHECK(x.grad()->shares_memory(arena));
  CHECK(gradient_bytes_copied() == before);
  x.zero_grad();
  plus(x, x.detach()).backward(Tensor::from<double>({7, 8}, {2}));
  CHECK(arena.to_vector<double>() == std::vector<double>{0, 7, 8, 0});
  CHECK(gradient_bytes_copied() == before + 2 * sizeof(double));
}

TEST_CASE("a leaf's hook fires once per backward, after all contributions; at_end comes last") {
  Variable x = leaf({1});
  Variable w = leaf({1});
  std::vector<std::string> seen;
  const HookHandle on_x = x.on_grad_ready([&](const Variable& v) {
    seen.push_back("x");
    CHECK(v.grad()->item() == 6);
    at_end_of_backward([&](bool completed) { seen.push_back(completed ? "end" : "cut short"); });
  });
  HookHandle on_w = w.on_grad_ready([&](const Variable&) { seen.push_back("w"); });
  // w is used last in forward, so it is ready first.
  const auto forward = [&] { return plus(plus(times(x, 2, 2), times(x, 4, 4)), w); };
  forward().backward();
  CHECK(seen == std::vector<std::string>{"w", "x", "end"});
  on_w.reset();
  seen.clear();
  x.zero_grad();
  forward().backward();
  CHECK(seen == std::vector<std::string>{"x", "end"});
}

TEST_CASE("of the nodes that are ready, the one that forward ran last goes first") {
  // Gradients then arrive in the reverse order of forward, which is what buckets are planned for.
  std::vector<Variable> leaves;
  std::vector<HookHandle> hooks;
  std::vector<int> seen;
  std::vector<Variable> branches;
  for (int i = 0; i < 4; ++i) {
    leaves.push_back(leaf({1}));
    hooks.push_back(
        leaves.back().on_grad_ready([&seen, i](const Variable&) { seen.push_back(i); }));
    branches.push_back(times(times(leaves.back(), 2, 2), 3, 3));
  }
  // Added up so that an order by depth, or by the place among a node's inputs, is another one.
  plus(branches[3], plus(branches[0], plus(branches[2], branches[1]))).backward();
  CHECK(seen == std::vector<int>{3, 2, 1, 0});
}

TEST_CASE("those who wait for the end of backward are told when an exception cuts it short") {
  const Variable x = leaf({1});
  Variable w = leaf({1});
  std::vector<std::string> seen;
  const HookHandle on_w = w.on_grad_ready([&](const Variable&) {
    at_end_of_backward([&](bool completed) { seen.push_back(completed ? "end" : "cut short"); });
    if (seen.empty()) throw Error("stop");
  });
  CHECK_THROWS_AS(plus(x, w).backward(), Error);
  plus(x, w).backward();
  CHECK(seen == std::vector<std::string>{"cut short", "end"});
}

TEST_CASE("one that throws at the end of a backward does not keep the end from the others") {
  Variable x = leaf({1});
  std::vector<std::string> seen;
  const HookHandle on_x = x.on_grad_ready([&](const Variable&) {
    at_end_of_backward([](bool) { throw Error("stop"); });
    at_end_of_backward([&](bool completed) { seen.push_back(completed ? "end" : "cut short"); });
  });
  CHECK_THROWS_WITH_AS(times(x, 2, 2).backward(), "stop", Error);
  CHECK(seen == std::vector<std::string>{"cut short"});
}

TEST_CASE("a hook that removes itself does not keep the next one from firing") {
  Variable x = leaf({1});
  int fired = 0;
  HookHandle once;
  once = x.on_grad_ready([&](const Variable&) { once.reset(); });
  const HookHandle always = x.on_grad_ready([&](const Variable&) { ++fired; });
  times(x, 2, 2).backward();
  CHECK(fired == 1);
  times(x, 2, 2).backward();
  CHECK(fired == 2);
}

TEST_CASE("a graph of 200,000 nodes is walked and destroyed in constant stack") {
  const Variable x = leaf({1});
  Variable y = x;
  for (int i = 0; i < 200000; ++i) y = times(y, 1, 1);
  y.backward();
  CHECK(grad_of(x) == std::vector<double>{1});
  y = Variable();
}

TEST_CASE("what goes wrong is said") {
  const Variable x = leaf({1});
  CHECK_THROWS_AS(leaf({1, 2}).backward(), ArgumentError);
  CHECK_THROWS_AS(x.detach().backward(), ArgumentError);

  const Variable y = times(x, 2, 2);
  y.backward();
  CHECK_THROWS_WITH_AS(y.backward(), doctest::Contains("freed"), ArgumentError);

  const Variable kept = times(x, 2, 2);
  kept.backward(/*retain_graph=*/true);
  kept.backward();
  CHECK(grad_of(x) == std::vector<double>{6});

  Variable a = relu(x);
  Tensor changed = a.data();
  ops::fill(changed, 5);
  CHECK_THROWS_WITH_AS(a.backward(), doctest::Contains("changed in place"), ArgumentError);

  const Variable silent =
      record("silent", ops::clone(x.data()), {x}, [](const Tensor&, GradSink&) {});
  CHECK_THROWS_WITH_AS(silent.backward(), doctest::Contains("gave no gradient"), ArgumentError);
  const Variable narrowed =
      record("narrowed", ops::clone(x.data()), {x},
             [](const Tensor& g, GradSink& sink) { sink.give(0, ops::cast(g, DType::kF32)); });
  CHECK_THROWS_WITH_AS(narrowed.backward(),
                       doctest::Contains("a gradient of f32 [1] for input 0 of f64 [1]"),
                       ArgumentError);

  // An exception leaves the graph usable.
  bool fail = true;
  const Variable moody =
      record("moody", ops::clone(x.data()), {x}, [&](const Tensor& g, GradSink& sink) {
        if (fail) throw Error("not now");
        sink.give(0, g);
      });
  const Variable top = times(moody, 2, 2);
  CHECK_THROWS_AS(top.backward(/*retain_graph=*/true), Error);
  fail = false;
  Variable(x).zero_grad();
  top.backward();
  CHECK(grad_of(x) == std::vector<double>{2});
}

TEST_CASE("NoGrad and inputs without gradients record nothing") {
  const Variable x = leaf({1});
  CHECK(!times(x.detach(), 2, 2).requires_grad());
  {
    const NoGrad no_grad;
    CHECK(!times(x, 2, 2).requires_grad());
  }
  CHECK(times(x, 2, 2).requires_grad());
}

}  // namespace
}  // namespace lockstep
