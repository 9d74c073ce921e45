// What holds for Adam, AdamW and LAMB alike: runs, counts, state.
#include "lockstep/optim/adam.h"
#include "lockstep/optim/flatten.h"
#include "lockstep/optim/lamb.h"
#include "lockstep/optim/parameter_groups.h"
#include "lockstep/tests/optim/parameters.h"

#include <doctest/doctest.h>
#include <omp.h>

#include <algorithm>
#include <limits>

namespace lockstep {
namespace {

using namespace testing;

template <class T>
struct Kind;
template <>
struct Kind<Adam> {
  static constexpr AdamOptions kOptions{.lr = 0.01, .weight_decay = 0.1};
  static size_t passes(size_t runs, size_t) { return runs; }
};
template <>
struct Kind<AdamW> {
  static constexpr AdamWOptions kOptions{.lr = 0.01};
  static size_t passes(size_t runs, size_t) { return runs; }
};
template <>
struct Kind<Lamb> {
  static constexpr LambOptions kOptions{.lr = 0.01};
  static size_t passes(size_t, size_t parameters) { return 2 * parameters; }
};

OptimizerState copy_of(const OptimizerState& state) {
  OptimizerState copy = state;
  for (NamedTensor& entry : copy.tensors) entry.tensor = ops::clone(entry.tensor);
  return copy;
}

Tensor tensor_named(const OptimizerState& state, const std::string& name) {
  for (const NamedTensor& entry : state.tensors) {
    if (entry.name == name) return entry.tensor;
  }
  FAIL("no tensor is named ", name);
  return {};
}

TEST_CASE_TEMPLATE("arenas: few passes, the same bits; parameters may move between steps", T, Adam,
                   AdamW, Lamb) {
  auto apart = make_parameters();
  auto together = make_parameters();
  T a(apart, Kind<T>::kOptions), b(together, Kind<T>::kOptions);
  auto handles = variables(together);
  Tensor data = move_into_arena(handles);
  bind_gradients_to_arena(handles);
  for (uint64_t step = 0; step < 6; ++step) {
    if (step == 3) {  // planned anew
      std::reverse(handles.begin(), handles.end());
      data = move_into_arena(handles);
      bind_gradients_to_arena(handles);
    }
    set_grads(apart, step);
    set_grads(together, step);
    a.step();
    b.step();
    CHECK(a.passes_of_last_step() == Kind<T>::passes(kShapes.size(), kShapes.size()));
    CHECK(b.passes_of_last_step() == Kind<T>::passes(1, kShapes.size()));
    check_equal(apart, together);
  }
  // Padding took part and is still zero.
  CHECK(data.to_vector<float>().back() == 0);
}

TEST_CASE_TEMPLATE("an unused parameter stays, with its moments and its count", T, Adam, AdamW,
                   Lamb) {
  auto list = make_parameters();
  auto skipping = make_parameters();  // the same steps for p2, but for those it is left out of
  auto handles = variables(list);
  move_into_arena(handles);
  bind_gradients_to_arena(handles);
  T a(list, Kind<T>::kOptions), b({skipping[2]}, Kind<T>::kOptions);
  const auto step = [&](uint64_t number, bool used) {
    a.zero_grad();
    set_grads(list, number);
    if (!used) handles[2].zero_grad();
    a.step();
    if (!used) return;
    set_grad(skipping[2].parameter, 10 * number + 2);
    b.step();
  };
  step(0, true);
  const auto state = copy_of(a.state());
  const float value = handles[2].data().to_vector<float>()[0];
  step(1, false);
  CHECK(a.passes_of_last_step() == Kind<T>::passes(2, 4));
  CHECK(handles[2].data().to_vector<float>()[0] == value);
  for (const char* name : {"exp_avg.p2", "exp_avg_sq.p2", "step.p2"}) {
    CHECK(tensor_named(a.state(), name).item() == tensor_named(state, name).item());
  }
  CHECK(tensor_named(a.state(), "step.p2").item() == 1);
  CHECK(tensor_named(a.state(), "step.p3").item() == 2);
  step(2, true);
  CHECK(a.passes_of_last_step() == Kind<T>::passes(3, 5));  // another count, so a run of its own
  CHECK(handles[2].data().to_vector<float>() == skipping[2].parameter.data().to_vector<float>());
}

TEST_CASE_TEMPLATE("a loaded state continues bit for bit", T, Adam, AdamW, Lamb) {
  auto list = make_parameters(), resumed = make_parameters();
  T a(list, Kind<T>::kOptions), b(resumed, Kind<T>::kOptions);
  for (uint64_t step = 0; step < 2; ++step) {
    set_grads(list, step);
    a.step();
  }
  OptimizerState saved = copy_of(a.state());
  CHECK(saved.tensors.size() == 3 * kShapes.size());
  for (size_t i = 0; i < list.size(); ++i) {
    ops::copy(list[i].parameter.data(), resumed[i].parameter.mutable_data());
  }
  b.load_state(saved);
  set_grads(list, 2);
  set_grads(resumed, 2);
  a.step();
  b.step();
  check_equal(list, resumed);

  tensor_named(saved, "step.p1").mutable_data<int64_t>()[0] = -1;
  CHECK_THROWS_WITH_AS(b.load_state(saved), doctest::Contains("step.p1: wanted a count"),
                       ArgumentError);
  tensor_named(saved, "step.p1").mutable_data<int64_t>()[0] = std::numeric_limits<int64_t>::max();
  CHECK_THROWS_WITH_AS(b.load_state(saved), doctest::Contains("step.p1: wanted a count"),
                       ArgumentError);
}

TEST_CASE_TEMPLATE("wrong options are refused", T, Adam, AdamW, Lamb) {
  const auto list = make_parameters();
  using Options = std::remove_cv_t<decltype(Kind<T>::kOptions)>;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const Options& wrong :
       {Options{.lr = -1}, Options{.beta1 = 1}, Options{.beta1 = nan}, Options{.beta2 = -0.1},
        Options{.beta2 = 1}, Options{.eps = 0}, Options{.eps = 1e-60}, Options{.eps = nan},
        Options{.weight_decay = -1}, Options{.weight_decay = nan}}) {
    CHECK_THROWS_AS(T(list, wrong), ArgumentError);
  }
}

TEST_CASE("LAMB: any number of threads gives the same bits") {
  const auto step = [](int threads) {
    const int before = omp_get_max_threads();
    omp_set_num_threads(threads);
    Variable parameter(random_tensor({123457}, 1, -1, 1, DType::kF32), true);
    Lamb lamb({{"p", parameter}}, {});
    set_grad(parameter, 2);
    lamb.step();
    omp_set_num_threads(before);
    return parameter.data().to_vector<float>();
  };
  CHECK(step(1) == step(3));
}

TEST_CASE("LAMB: without weight decay Adam's step, in one pass, unless asked to adapt") {
  auto plain = make_parameters(), adam = make_parameters(), adapted = make_parameters();
  for (auto* list : {&plain, &adapted}) {
    auto handles = variables(*list);
    move_into_arena(handles);
    bind_gradients_to_arena(handles);
  }
  Lamb a(plain, {.weight_decay = 0}), c(adapted, {.weight_decay = 0, .always_adapt = true});
  Adam b(adam, {.eps = 1e-6});
  for (auto* list : {&plain, &adam, &adapted}) set_grads(*list, 0);
  a.step();
  b.step();
  c.step();
  CHECK(a.passes_of_last_step() == 1);
  CHECK(c.passes_of_last_step() == 2 * kShapes.size());
  check_equal(plain, adam);
  CHECK(adapted[0].parameter.data().to_vector<float>() !=
        plain[0].parameter.data().to_vector<float>());
}

TEST_CASE("parameters are parted by a predicate; those of one dimension have no decay") {
  const auto parts = split_parameters(make_parameters(), has_weight_decay);
  REQUIRE(parts.matching.size() == 2);
  CHECK(parts.matching[0].name == "p0");
  CHECK(parts.matching[1].name == "p4");
  REQUIRE(parts.others.size() == 3);
  CHECK(parts.others[0].name == "p1");
  CHECK(parts.others[2].name == "p3");
}

}  // namespace
}  // namespace lockstep
