#include "lockstep/optim/schedule.h"

#include "lockstep/base/error.h"
#include "lockstep/io/safetensors.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

using doctest::Approx;

TEST_CASE("constant, step and multi-step") {
  CHECK(constant_schedule()(7) == 1);
  const Schedule step = step_schedule(10, 0.5);
  CHECK(step(9) == 1);
  CHECK(step(10) == 0.5);
  CHECK(step(29) == 0.25);
  const Schedule multi = multi_step_schedule({3, 5, 5});
  CHECK(multi(2) == 1);
  CHECK(multi(3) == Approx(0.1));
  CHECK(multi(5) == Approx(0.001));
}

TEST_CASE("cosine: ends, middle, beyond") {
  const Schedule cosine = cosine_schedule(100, 0.1);
  CHECK(cosine(0) == 1);
  CHECK(cosine(50) == Approx(0.55));
  CHECK(cosine(25) == Approx(0.1 + 0.9 * 0.5 * (1 + 0.70710678118654752)));
  CHECK(cosine(100) == Approx(0.1));
  CHECK(cosine(1000) == Approx(0.1));
}

TEST_CASE("warm-up, then another schedule") {
  const Schedule warmup = warmup_schedule(4, 0.2);
  CHECK(warmup(0) == 0.2);
  CHECK(warmup(2) == Approx(0.6));
  CHECK(warmup(4) == 1);
  CHECK(warmup_schedule(0)(0) == 1);
  const Schedule chained = chain_schedules(warmup, 4, step_schedule(2, 0.5));
  CHECK(chained(3) == Approx(0.8));
  CHECK(chained(4) == 1);
  CHECK(chained(6) == 0.5);
  CHECK(multiply_schedules(warmup, step_schedule(2, 0.5))(3) == Approx(0.4));
}

// tests/golden/make_optimizers.py, schedules(): every step of PyTorch's.
TEST_CASE("every schedule equals PyTorch's") {
  const TensorFile golden = read_safetensors("tests/golden/schedules.safetensors");
  const std::vector<std::pair<const char*, Schedule>> cases{
      {"one_cycle_cosine", one_cycle_schedule({.steps = 40})},
      {"one_cycle_linear", one_cycle_schedule({.steps = 40,
                                               .pct_start = 0.33,
                                               .cosine = false,
                                               .div_factor = 10,
                                               .final_div_factor = 100})},
      {"one_cycle_three_phases", one_cycle_schedule({.steps = 40, .three_phases = true})},
      {"polynomial", polynomial_schedule(35, 2.5)},
      {"warmup_linear", warmup_linear_schedule(7, 35)},
      {"constant", constant_schedule()},
      {"step", step_schedule(6, 0.5)},
      {"multi_step", multi_step_schedule({3, 5, 5, 20})},
      {"cosine", cosine_schedule(39, 0.1)},
      {"warmup", warmup_schedule(7, 0.2)},
      {"chained", chain_schedules(warmup_schedule(7, 0.2), 7, step_schedule(10, 0.5))},
      {"multiplied", multiply_schedules(warmup_schedule(7, 0.2), step_schedule(10, 0.5))}};
  CHECK(golden.tensors.size() == cases.size());
  for (const auto& entry : cases) {
    const std::string name = entry.first;
    const Schedule& schedule = entry.second;
    CAPTURE(name);
    const std::vector<double> wanted = golden.at(name).to_vector<double>();
    REQUIRE(wanted.size() == 40);
    for (size_t step = 0; step < wanted.size(); ++step) {
      CAPTURE(step);
      // Some of PyTorch's multiply their rate from step to step.
      CHECK(std::abs(schedule(static_cast<int64_t>(step)) - wanted[step]) <= 1e-14);
    }
  }
  // The others have no end, or theirs is tested above.
  for (size_t i = 0; i < 5; ++i) CHECK(cases[i].second(39) == cases[i].second(1000));
}

TEST_CASE("ends of polynomial, one-cycle and BERT's schedule") {
  CHECK(polynomial_schedule(10, 2, 0.2)(5) == Approx(0.4));
  CHECK(polynomial_schedule(10, 2, 0.2)(10) == 0.2);
  CHECK(warmup_linear_schedule(0, 10)(0) == 1);
  CHECK(one_cycle_schedule({.steps = 1})(0) == Approx(0.04 / 1e4));
  CHECK(one_cycle_schedule({.steps = 10, .pct_start = 0.1})(0) == 1);  // no step to rise in
  CHECK(one_cycle_schedule({.steps = 10, .pct_start = 0})(9) == Approx(0.04 / 1e4));
  CHECK(one_cycle_schedule({.steps = 10, .pct_start = 1})(9) == 1);
}

TEST_CASE("wrong arguments") {
  CHECK_THROWS_AS(polynomial_schedule(0), ArgumentError);
  CHECK_THROWS_AS(polynomial_schedule(1, 0), ArgumentError);
  CHECK_THROWS_AS(warmup_linear_schedule(5, 5), ArgumentError);
  CHECK_THROWS_AS(one_cycle_schedule({}), ArgumentError);
  CHECK_THROWS_AS(one_cycle_schedule({.steps = 9, .pct_start = 1.1}), ArgumentError);
  CHECK_THROWS_AS(one_cycle_schedule({.steps = 9, .pct_start = 0.6, .three_phases = true}),
                  ArgumentError);
  CHECK_THROWS_AS(one_cycle_schedule({.steps = 9, .div_factor = 0}), ArgumentError);
  CHECK_THROWS_AS(step_schedule(0), ArgumentError);
  CHECK_THROWS_AS(cosine_schedule(0), ArgumentError);
  CHECK_THROWS_AS(warmup_schedule(-1), ArgumentError);
  CHECK_THROWS_AS(multi_step_schedule({5, 3}), ArgumentError);
  CHECK_THROWS_AS(chain_schedules(constant_schedule(), -1, constant_schedule()), ArgumentError);
}

}  // namespace
}  // namespace lockstep
