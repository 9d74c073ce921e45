#include "lockstep/optim/schedule.h"

#include "lockstep/base/error.h"

#include <doctest/doctest.h>

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

TEST_CASE("wrong arguments") {
  CHECK_THROWS_AS(step_schedule(0), ArgumentError);
  CHECK_THROWS_AS(cosine_schedule(0), ArgumentError);
  CHECK_THROWS_AS(warmup_schedule(-1), ArgumentError);
  CHECK_THROWS_AS(multi_step_schedule({5, 3}), ArgumentError);
  CHECK_THROWS_AS(chain_schedules(constant_schedule(), -1, constant_schedule()), ArgumentError);
}

}  // namespace
}  // namespace lockstep
