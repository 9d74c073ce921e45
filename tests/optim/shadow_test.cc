// The bf16 shadows that optimizers write: what forward reads after a step is the new value,
// rounded, and no conversion was made for it.
#include "lockstep/autograd/shadow.h"

#include "lockstep/autograd/autocast.h"
#include "lockstep/autograd/ops/elementwise.h"
#include "lockstep/autograd/ops/matmul.h"
#include "lockstep/autograd/ops/reduce.h"
#include "lockstep/optim/adam.h"
#include "lockstep/optim/ema.h"
#include "lockstep/optim/flatten.h"
#include "lockstep/optim/lamb.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/tensor/allocator.h"
#include "lockstep/tests/optim/parameters.h"

#include <doctest/doctest.h>

#include <cstring>
#include <functional>
#include <memory>
#include <vector>

namespace lockstep {
namespace {

using namespace testing;
using Parameters = std::vector<NamedParameter>;

bool is_rounded(const Tensor& shadow, const Tensor& value) {
  const Tensor wanted = ops::cast(value, DType::kBF16);
  return std::memcmp(shadow.raw(), wanted.raw(), wanted.nbytes()) == 0;
}

/// Every shadow as forward would see it: right, and (if `warm`) there already.
void check_shadows(const Parameters& list, bool warm = true) {
  for (size_t i = 0; i < list.size(); ++i) {
    CAPTURE(i);
    const uint64_t before = Shadow::conversions();
    CHECK(is_rounded(Shadow::of(list[i].parameter), list[i].parameter.data()));
    if (warm) CHECK(Shadow::conversions() == before);
  }
}

using Make = std::function<std::unique_ptr<Optimizer>(Parameters, Parameters)>;

template <class Optimizer_, class Options>
Make two_groups(Options first, Options second) {
  return [=](Parameters a, Parameters b) {
    std::vector<ParameterGroup<Options>> groups;
    groups.push_back({std::move(a), first});
    groups.push_back({std::move(b), second});
    return std::make_unique<Optimizer_>(std::move(groups));
  };
}

const std::vector<Make> kOptimizers{
    two_groups<Sgd, SgdOptions>({.lr = 0.1, .weight_decay = 0.1}, {.lr = 0.1}),
    two_groups<Sgd, SgdOptions>({.lr = 0.1, .momentum = 0.9}, {.lr = 0.1, .momentum = 0.9}),
    two_groups<Sgd, SgdOptions>({.lr = 0.1, .momentum = 0.9, .nesterov = true}, {.lr = 0.1}),
    two_groups<Adam, AdamOptions>({.weight_decay = 0.1}, {}),
    two_groups<AdamW, AdamWOptions>({}, {.weight_decay = 0}),
    two_groups<Lamb, LambOptions>({}, {.weight_decay = 0})};

TEST_CASE("each optimizer's step leaves fresh shadows, in arenas and apart, in two groups") {
  for (size_t kind = 0; kind < kOptimizers.size(); ++kind) {
    for (const bool together : {false, true}) {
      CAPTURE(kind);
      CAPTURE(together);
      const Parameters mixed = make_parameters(), plain = make_parameters();
      const auto make = [&](const Parameters& list) {
        auto handles = variables(list);
        if (together) {
          move_into_arena(handles);
          bind_gradients_to_arena(handles);
        }
        return kOptimizers[kind]({list.begin(), list.begin() + 3}, {list.begin() + 3, list.end()});
      };
      const auto optimizer = make(mixed), without = make(plain);
      check_shadows(mixed, /*warm=*/false);  // forward asks for them
      for (uint64_t step = 0; step < 3; ++step) {
        for (const Parameters* list : {&mixed, &plain}) {
          set_grads(*list, step);
          // One takes no part in the second step: its shadow is still right.
          if (step == 1) Variable((*list)[1].parameter).zero_grad();
        }
        optimizer->step();
        without->step();
        CHECK(optimizer->passes_of_last_step() == without->passes_of_last_step());
        check_shadows(mixed);
        check_equal(mixed, plain);  // the masters have the bits that they have without shadows
      }
    }
  }
}

TEST_CASE("whatever else changes a parameter, the next use converts it anew") {
  const Parameters list = make_parameters();
  auto handles = variables(list);
  move_into_arena(handles);
  Sgd optimizer(list, {.lr = 0.1});
  Ema ema(list, {.decay = 0.5});
  ema.update();
  const auto warm = [&] {
    check_shadows(list, false);
    set_grads(list, 1);
    optimizer.step();
    check_shadows(list);
  };
  warm();
  ops::fill(handles[0].mutable_data(), 3);
  check_shadows(list, false);
  warm();
  // A write through a view that knows of no variable.
  Tensor view = handles[1].data().reshape({-1});
  ops::fill(view, 5);
  check_shadows(list, false);
  warm();
  {
    const EmaWeights averaged(ema);
    check_shadows(list, false);
  }
  check_shadows(list, false);
  warm();
  // Another tensor, also when it lies where the first one lay.
  handles[0].mutable_data() = random_tensor(kShapes[0], 77, -1, 1, DType::kF32);
  check_shadows(list, false);
  move_into_arena(handles);
  check_shadows(list, false);
  warm();
}

TEST_CASE("a graph that saved a shadow says so when a step has overwritten it") {
  const Parameters list{{"w", Variable(random_tensor({16, 16}, 1, -1, 1, DType::kF32), true)}};
  const Variable w = list[0].parameter;
  const Variable x(random_tensor({4, 16}, 2, -1, 1, DType::kF32), true);
  Sgd optimizer(list, {.lr = 0.1});
  const auto loss = [&] {
    const Autocast mixed(DType::kBF16);
    return sum(linear(x, w));
  };
  loss().backward();
  optimizer.step();
  const Variable early = loss();
  optimizer.step();
  CHECK_THROWS_AS(early.backward(), ArgumentError);
}

TEST_CASE("a training step follows its shadows: the loss is that of weights rounded by hand") {
  const Parameters list{{"w", Variable(random_tensor({16, 16}, 1, -1, 1, DType::kF32), true)}};
  const Variable w = list[0].parameter;
  const Variable x(random_tensor({4, 16}, 2, -1, 1, DType::kF32));
  const Tensor x_rounded = ops::cast(x.data(), DType::kBF16);
  Sgd optimizer(list, {.lr = 0.05, .momentum = 0.9});
  uint64_t misses = 0, converted = 0;
  for (int step = 0; step < 4; ++step) {
    if (step == 1) converted = Shadow::conversions();
    if (step == 3) misses = cpu_allocator().stats().misses;
    Variable y, loss;
    {
      const Autocast mixed(DType::kBF16);
      y = linear(x, w);
      loss = mean(y * y);
    }
    if (step < 3) {
      const Tensor by_hand = ops::linear(x_rounded, ops::cast(w.data(), DType::kBF16), Tensor());
      CHECK(std::memcmp(y.data().raw(), by_hand.raw(), by_hand.nbytes()) == 0);
    }
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
  }
  CHECK(cpu_allocator().stats().misses == misses);
  CHECK(Shadow::conversions() == converted);
}

}  // namespace
}  // namespace lockstep
