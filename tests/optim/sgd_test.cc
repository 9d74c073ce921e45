#include "lockstep/optim/sgd.h"

#include "lockstep/optim/flatten.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tests/optim/parameters.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

namespace lockstep {
namespace {

using namespace testing;

const SgdOptions kOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true};

TEST_CASE("neighbours in arenas are updated in one pass, with the same bits, and stay in place") {
  auto apart = make_parameters();
  auto together = make_parameters();
  Sgd a(apart, kOptions);
  Sgd b(together, kOptions);
  auto handles = variables(together);
  const Tensor data = move_into_arena(handles);
  const Tensor grads = bind_gradients_to_arena(handles);
  for (uint64_t step = 0; step < 3; ++step) {
    set_grads(apart, step);
    set_grads(together, step);
    a.step();
    b.step();
    CHECK(a.passes_of_last_step() == kShapes.size());
    CHECK(b.passes_of_last_step() == 1);
    check_equal(apart, together);
    for (const Variable& p : handles) {
      CHECK(p.data().shares_memory(data));
      CHECK(p.grad()->shares_memory(grads));
    }
    b.zero_grad();
    for (const Variable& p : handles) {
      CHECK(!p.grad());
      CHECK(p.grad_slot().shares_memory(grads));
    }
  }
  // Padding took part and is still zero.
  const auto all = data.to_vector<float>();
  CHECK(all[15] == 0);
  CHECK(all.back() == 0);
}

TEST_CASE("parameters may move between steps, in any order: the state follows") {
  auto still = make_parameters();
  auto moving = make_parameters();
  Sgd a(still, kOptions);
  Sgd b(moving, kOptions);
  const auto step = [&](uint64_t number) {
    set_grads(still, number);
    set_grads(moving, number);
    a.step();
    b.step();
  };
  step(0);
  auto handles = variables(moving);
  std::reverse(handles.begin(), handles.end());
  move_into_arena(handles);
  bind_gradients_to_arena(handles);
  step(1);
  CHECK(b.passes_of_last_step() == 1);
  check_equal(still, moving);
}

TEST_CASE("neighbours whose gradients lie apart, or in another order, are updated one by one") {
  auto plain = make_parameters();
  auto apart = make_parameters();
  auto crossed = make_parameters();
  Sgd a(plain, kOptions), b(apart, kOptions), c(crossed, kOptions);
  auto handles = variables(apart);
  move_into_arena(handles);
  handles = variables(crossed);
  move_into_arena(handles);
  std::reverse(handles.begin(), handles.end());
  bind_gradients_to_arena(handles);
  for (auto* list : {&plain, &apart, &crossed}) set_grads(*list, 0);
  a.step();
  b.step();
  c.step();
  CHECK(b.passes_of_last_step() == kShapes.size());
  CHECK(c.passes_of_last_step() == kShapes.size());
  check_equal(plain, apart);
  check_equal(plain, crossed);
}

TEST_CASE(
    "a parameter without a gradient is not moved, nor is its momentum; it only splits the pass") {
  auto list = make_parameters();
  auto handles = variables(list);
  move_into_arena(handles);
  bind_gradients_to_arena(handles);
  Sgd sgd(list, kOptions);
  set_grads(list, 0);
  sgd.step();
  const auto value = list[2].parameter.data().to_vector<float>();
  const auto other = list[3].parameter.data().to_vector<float>();
  const auto momentum = ops::clone(sgd.state().tensors[2].tensor);
  sgd.zero_grad();
  for (size_t i : {0, 1, 3, 4}) set_grad(list[i].parameter, i);
  sgd.step();
  CHECK(sgd.passes_of_last_step() == 2);
  CHECK(list[2].parameter.data().to_vector<float>() == value);
  CHECK(sgd.state().tensors[2].tensor.item() == momentum.item());
  CHECK(list[3].parameter.data().to_vector<float>() != other);
  sgd.zero_grad();
  sgd.step();
  CHECK(sgd.passes_of_last_step() == 0);
}

TEST_CASE("a loaded state continues bit for bit") {
  auto list = make_parameters();
  auto resumed = make_parameters();
  Sgd a({{{list[0], list[1], list[2]}, kOptions}, {{list[3], list[4]}, {.lr = 0.05}}});
  Sgd b(
      {{{resumed[0], resumed[1], resumed[2]}, kOptions}, {{resumed[3], resumed[4]}, {.lr = 0.2}}});
  a.set_lr_factor(0.5);
  set_grads(list, 0);
  a.step();

  OptimizerState saved = a.state();
  for (NamedTensor& entry : saved.tensors) entry.tensor = ops::clone(entry.tensor);
  CHECK(saved.tensors.size() == 3);
  CHECK(saved.tensors[1].name == "momentum.p1");
  for (size_t i = 0; i < list.size(); ++i) {
    ops::copy(list[i].parameter.data(), resumed[i].parameter.mutable_data());
  }
  b.load_state(saved);
  CHECK(b.lr(1) == 0.025);
  set_grads(list, 1);
  set_grads(resumed, 1);
  a.step();
  b.step();
  check_equal(list, resumed);

  saved.tensors[0].tensor = Tensor::zeros({3, 6}, DType::kF32);
  CHECK_THROWS_WITH_AS(b.load_state(saved), doctest::Contains("momentum.p0: wanted f32 [3, 5]"),
                       ArgumentError);
  saved.tensors[0].name = "momentum.other";
  CHECK_THROWS_WITH_AS(b.load_state(saved), doctest::Contains("momentum.p0"), ArgumentError);
  saved.tensors.pop_back();
  CHECK_THROWS_AS(b.load_state(saved), ArgumentError);
}

TEST_CASE("parameters of two dtypes can be in one group") {
  auto list = make_parameters();
  list.push_back({"double", Variable(random_tensor({4}, 1), true)});
  Sgd sgd(list, {.lr = 0.5, .momentum = 0.9});
  set_grads(list, 0);
  const double before = list.back().parameter.data().data<double>()[0];
  const double grad = list.back().parameter.grad()->data<double>()[0];
  sgd.step();
  CHECK(list.back().parameter.data().data<double>()[0] ==
        doctest::Approx(before - 0.5 * grad).epsilon(1e-14));
}

TEST_CASE("wrong options and parameters are refused") {
  const auto list = make_parameters();
  CHECK_THROWS_AS(Sgd(list, {.lr = -1}), ArgumentError);
  CHECK_THROWS_AS(Sgd(list, {.momentum = -1}), ArgumentError);
  CHECK_THROWS_AS(Sgd(list, {.weight_decay = -1}), ArgumentError);
  CHECK_THROWS_AS(Sgd(list, {.nesterov = true}), ArgumentError);
  CHECK_THROWS_AS(Sgd(list, {.momentum = 0.9, .dampening = -1}), ArgumentError);
  CHECK_THROWS_WITH_AS(Sgd(list, {.momentum = 0.9, .dampening = 0.1, .nesterov = true}),
                       doctest::Contains("no dampening"), ArgumentError);
  CHECK_THROWS_WITH_AS(Sgd({list[0], {"q", list[0].parameter}}, {}),
                       doctest::Contains("q is given twice"), ArgumentError);
  CHECK_THROWS_WITH_AS(Sgd({{{list[0]}, {}}, {{{"p0", list[1].parameter}}, {}}}),
                       doctest::Contains("named p0"), ArgumentError);
  CHECK_THROWS_AS(Sgd({{"x", list[0].parameter.detach()}}, {}), ArgumentError);
  Sgd sgd(list, {});
  CHECK_THROWS_AS(sgd.set_lr(-1), ArgumentError);
  CHECK_THROWS_AS(sgd.set_lr(1, 1), ArgumentError);
  CHECK_THROWS_AS(sgd.lr(1), ArgumentError);
}

TEST_CASE("an arena takes different leaves of one dtype only") {
  const auto list = make_parameters();
  std::vector<Variable> mixed{list[0].parameter, Variable(Tensor::zeros({2}, DType::kF64), true)};
  const Tensor before = list[0].parameter.data();
  CHECK_THROWS_AS(move_into_arena(mixed), ArgumentError);
  std::vector<Variable> twice{list[0].parameter, list[0].parameter};
  CHECK_THROWS_AS(bind_gradients_to_arena(twice), ArgumentError);
  CHECK(list[0].parameter.data().shares_memory(before));
  CHECK(move_into_arena({}).numel() == 0);
}

}  // namespace
}  // namespace lockstep
