// Real runs of different shapes: the parts of their steps are the steps' wall time.
#include "lockstep/report/breakdown.h"
#include "lockstep/tests/support/temp_dir.h"
#include "lockstep/tests/train/small_run.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

using report::RunSteps;
using testing::Setup;

RunSteps steps_of(Setup setup, const testing::TempDir& dir) {
  setup.dir = dir.path();
  setup.epochs = 2;
  const int64_t steps = 2 * testing::train(setup).steps_per_epoch;
  RunSteps run = report::read_steps(dir.path());
  CHECK(run.missing.empty());
  for (const RankLog& rank : run.ranks) {
    CHECK(std::ssize(rank.steps) == steps);
    CHECK(rank.ended);
  }
  return run;
}

double median_missed(const RankLog& rank) {
  std::vector<double> missed;
  for (const StepRecord& step : rank.steps) missed.push_back(unaccounted(step));
  return median(missed);
}

TEST_CASE("forward, backward, communication and waits, optimizer and data wait are a step") {
  const std::vector<std::pair<const char*, Setup>> shapes = {
      {"one rank", {.ranks = 1}},
      {"overlapped", {.ranks = 2}},
      {"naive, accumulated",
       {.ranks = 3, .batch_size = 16, .accumulate = 3, .mode = DdpMode::kNaive}},
      {"a slow link and a hook", {.ranks = 2, .comm_hook = "bf16", .link = "100mbit,latency=1ms"}}};
  for (const auto& [name, setup] : shapes) {
    CAPTURE(name);
    const testing::TempDir dir;
    const RunSteps run = steps_of(setup, dir);
    REQUIRE(std::ssize(run.ranks) == setup.ranks);
    for (const RankLog& rank : run.ranks) {
      CHECK(median_missed(rank) <= kMostUnaccounted);
      CHECK(report::breakdown_of(rank.steps).missed <= kMostUnaccounted);
    }
    const auto buckets = report::buckets_of(run);
    CHECK(!buckets.empty());
    for (const report::BucketSummary& bucket : buckets) {
      CHECK(bucket.times.ready <= bucket.times.launch);
      CHECK(bucket.times.launch <= bucket.times.start);
      CHECK(bucket.times.start <= bucket.times.finish);
    }
  }
}

TEST_CASE("a wrong interval in a real step shows") {
  const testing::TempDir dir;
  const RunSteps run = steps_of({.ranks = 2}, dir);
  // The fastest, which other programs of a busy machine have stretched least.
  const auto& steps = run.ranks[0].events;
  StepEvents step = *std::min_element(steps.begin(), steps.end(), [](auto& a, auto& b) {
    return a.end_ns - a.begin_ns < b.end_ns - b.begin_ns;
  });
  const double before = unaccounted(record_of(summarize(step)));
  for (StepEvents::Event& event : step.events) {
    if (event.span.activity != Activity::kForward) continue;
    event.span.end_ns += (step.end_ns - step.begin_ns) / 20;  // reaches into backward
  }
  const double after = unaccounted(record_of(summarize(step)));
  CHECK(after > before + 0.03);
  CHECK(after > kMostUnaccounted);
}

}  // namespace
}  // namespace lockstep
