#include "lockstep/report/breakdown.h"

#include "lockstep/tests/report/sample_run.h"
#include "lockstep/tests/support/temp_dir.h"

#include <doctest/doctest.h>

#include <cmath>
#include <numeric>

namespace lockstep::report {
namespace {

RunSteps sampled(const testing::Sample& sample) {
  const testing::TempDir dir;
  testing::write_sample(dir.path(), sample);
  return read_steps(dir.path());
}

TEST_CASE("a typical step's parts add up, whatever its outliers") {
  std::vector<StepRecord> steps;
  for (int i = 0; i < 21; ++i) {
    StepRecord step{.step = i, .wall = 100.0 + i, .parts = {}};
    step.parts[0] = 40 + i;
    step.parts[1] = 60;
    if (i == 0) step.wall = step.parts[0] = 5000;  // the first: left out
    if (i == 20) step.wall = 90000;                // and one that the machine held up
    steps.push_back(step);
  }
  const Breakdown result = breakdown_of(steps);
  CHECK(result.steps == 20);
  const StepRecord& typical = result.typical;
  CHECK(std::accumulate(typical.parts.begin(), typical.parts.end(), 0.0) ==
        doctest::Approx(typical.wall));
  CHECK(typical.wall == doctest::Approx(110.5));
  CHECK(result.median.parts[0] == doctest::Approx(50.5));
  CHECK(result.p90.parts[0] == doctest::Approx(58));
  CHECK(result.missed_steps == 1);  // the one held up
  CHECK(breakdown_of({}).steps == 0);
  CHECK(breakdown_of(std::span(steps).first(1)).steps == 1);
}

TEST_CASE("buckets: medians, the critical one, and the ring's bandwidth") {
  const RunSteps run = sampled({.ranks = 3, .buckets = 3, .transfer = 25});
  const auto buckets = buckets_of(run);
  REQUIRE(buckets.size() == 3);
  CHECK(buckets[0].times.ready == doctest::Approx(20));
  CHECK(buckets[0].times.finish == doctest::Approx(45));
  CHECK(buckets[1].times.start == doctest::Approx(45));  // queued behind the first
  CHECK(buckets[1].times.wait == doctest::Approx(10));
  CHECK(buckets[2].times.wait == doctest::Approx(25));
  CHECK(buckets[2].transfer == doctest::Approx(25));
  CHECK(buckets[2].bandwidth == doctest::Approx(1e6 * 4 / 3 / 25e-3));
  CHECK(critical_bucket(buckets, 140) == 2);
  CHECK(critical_bucket(buckets, 4000) == -1);
  CHECK(ring_bytes(100, 2) == 100);
  CHECK(ring_bytes(100, 1) == 0);
}

TEST_CASE("who is late, on one clock whatever the ranks' own clocks say") {
  for (const int64_t ahead : {int64_t{0}, int64_t{7'000'000'000}}) {
    const RunSteps run = sampled({.ranks = 3, .late = 12, .clock_ahead = ahead});
    const auto ranks = ranks_of(run);
    REQUIRE(ranks.size() == 3);
    CHECK(ranks[0].late == doctest::Approx(0));
    CHECK(ranks[1].late == doctest::Approx(0));
    CHECK(ranks[2].late == doctest::Approx(8));  // 4, 8 and 12 for its three buckets
    CHECK(ranks[2].breakdown.typical.of(StepPart::kPeerWait) == doctest::Approx(0).epsilon(0.001));
    CHECK(ranks[0].breakdown.typical.of(StepPart::kPeerWait) == doctest::Approx(12));
    CHECK(start_delay(run) == doctest::Approx(0).epsilon(0.001));
  }
  CHECK(start_delay(sampled({.start_delay = 3})) == doctest::Approx(3));
}

TEST_CASE("one rank alone has no buckets that travel and nobody to be late for") {
  const RunSteps run = sampled({.ranks = 1});
  CHECK(buckets_of(run).empty());
  CHECK(std::isnan(ranks_of(run)[0].late));
  CHECK(std::isnan(start_delay(run)));
  CHECK(critical_bucket({}, 100) == -1);
}

}  // namespace
}  // namespace lockstep::report
