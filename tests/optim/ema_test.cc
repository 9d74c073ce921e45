#include "lockstep/optim/ema.h"

#include "lockstep/io/safetensors.h"
#include "lockstep/optim/flatten.h"
#include "lockstep/tests/optim/parameters.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

namespace lockstep {
namespace {

using namespace testing;

/// The weights after some step of training.
void train(const std::vector<NamedParameter>& list, uint64_t step) {
  for (size_t i = 0; i < list.size(); ++i) {
    Variable p = list[i].parameter;
    ops::copy(random_tensor(p.shape(), 100 * step + i, -1, 1, p.dtype()), p.mutable_data());
  }
}

std::vector<std::vector<float>> values(const std::vector<NamedParameter>& list) {
  std::vector<std::vector<float>> all;
  for (const NamedParameter& p : list) all.push_back(p.parameter.data().to_vector<float>());
  return all;
}

std::vector<std::vector<float>> averages(Ema& ema, const std::vector<NamedParameter>& list) {
  const EmaWeights averaged(ema);
  return values(list);
}

// tests/golden/make_optimizers.py, averages().
TEST_CASE("five updates equal PyTorch's AveragedModel") {
  const TensorFile golden = read_safetensors("tests/golden/optimizers.safetensors");
  for (const auto& [name, decay] : {std::pair{"high", 0.9}, {"low", 0.3}}) {
    for (const DType dtype : {DType::kF32, DType::kF64}) {
      Variable weights(Tensor::zeros({9}, dtype), true);
      Ema ema({{"w", weights}}, {.decay = decay});
      for (int step = 0; step < 5; ++step) {
        ops::copy(ops::cast(golden.at(str("ema.weights", step)), dtype), weights.mutable_data());
        ema.update();
        const EmaWeights averaged(ema);
        CHECK(relative_difference(weights.data(),
                                  golden.at(str("ema.", name, ".", name_of(dtype), ".", step))) <=
              (dtype == DType::kF64 ? 1e-15 : 3e-7));
      }
    }
  }
}

TEST_CASE("the decay warms up as timm's") {
  const auto decays = read_safetensors("tests/golden/optimizers.safetensors")
                          .at("ema.warmup_decays")
                          .to_vector<double>();
  Ema ema({{"w", Variable(Tensor::zeros({1}, DType::kF32), true)}},
          {.decay = 0.95, .warmup = true});
  for (const double decay : decays) {
    CHECK(std::abs(ema.next_decay() - decay) <= 1e-15);
    ema.update();
  }
  CHECK(ema.next_decay() == 0.95);
}

TEST_CASE("one pass in an arena, with or without gradients; parameters may move") {
  auto apart = make_parameters(), together = make_parameters();
  Ema a(apart, {.decay = 0.5}), b(together, {.decay = 0.5});
  auto handles = variables(together);
  move_into_arena(handles);
  for (uint64_t step = 0; step < 4; ++step) {
    if (step == 2) {
      std::reverse(handles.begin(), handles.end());
      move_into_arena(handles);
    }
    train(apart, step);
    train(together, step);
    a.update();
    b.update();
    CHECK(a.passes_of_last_update() == kShapes.size());
    CHECK(b.passes_of_last_update() == 1);
    CHECK(averages(a, apart) == averages(b, together));
  }
}

TEST_CASE("weights are swapped in place and come back bit for bit, also after an exception") {
  auto list = make_parameters();
  auto handles = variables(list);
  const Tensor arena = move_into_arena(handles);
  Ema ema(list, {.decay = 0.5});
  const auto first = values(list);
  CHECK(averages(ema, list) == first);  // no average yet
  ema.update();
  train(list, 1);
  const auto weights = values(list);
  CHECK(averages(ema, list) == first);
  CHECK(values(list) == weights);
  try {
    const EmaWeights averaged(ema);
    CHECK(values(list) == first);
    CHECK(handles[0].data().shares_memory(arena));
    CHECK_THROWS_AS(ema.update(), Error);
    CHECK_THROWS_AS(ema.state(), Error);
    CHECK_THROWS_AS(EmaWeights{ema}, Error);
    throw Error("evaluation failed");
  } catch (const Error&) {
  }
  CHECK(values(list) == weights);
  ema.update();
  CHECK(averages(ema, list)[1][5] == doctest::Approx((first[1][5] + weights[1][5]) / 2));
}

TEST_CASE("a loaded state goes on bit for bit; another one is refused") {
  auto list = make_parameters(), resumed = make_parameters();
  const EmaOptions options{.decay = 0.9, .warmup = true};
  Ema a(list, options), b(resumed, options);
  for (uint64_t step = 0; step < 3; ++step) {
    train(list, step);
    a.update();
  }
  std::vector<NamedTensor> saved = a.state();
  for (NamedTensor& entry : saved) entry.tensor = ops::clone(entry.tensor);
  b.load_state(saved);
  CHECK(b.updates() == 3);
  train(list, 3);
  train(resumed, 3);
  a.update();
  b.update();
  CHECK(averages(a, list) == averages(b, resumed));

  const auto refused = [&](const std::vector<NamedTensor>& state, const char* why) {
    CHECK_THROWS_WITH_AS(b.load_state(state), doctest::Contains(why), ArgumentError);
  };
  std::vector<NamedTensor> wrong = saved;
  wrong.back().tensor = Tensor::from<int64_t>({-1}, {});
  refused(wrong, "got -1");
  wrong.back() = {"other", saved.back().tensor};
  refused(wrong, "no tensor is named updates");
  wrong.pop_back();
  refused(wrong, "wanted 6 tensors, got 5");
  wrong = saved;
  wrong[0].tensor = Tensor::zeros({3}, DType::kF32);
  refused(wrong, "average.p0: wanted f32 [3, 5]");
  CHECK(b.updates() == 4);
}

TEST_CASE("wrong options are refused") {
  const auto list = make_parameters();
  for (const EmaOptions& wrong : {EmaOptions{.decay = 1}, EmaOptions{.decay = -0.1},
                                  EmaOptions{.warmup_gamma = 0}, EmaOptions{.warmup_power = 0}}) {
    CHECK_THROWS_AS(Ema(list, wrong), ArgumentError);
  }
  CHECK_THROWS_AS(Ema({list[0], {"p0", list[1].parameter}}, {}), ArgumentError);
}

}  // namespace
}  // namespace lockstep
