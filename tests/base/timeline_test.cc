#include "lockstep/base/timeline.h"

#include <doctest/doctest.h>

#include <thread>

namespace lockstep {
namespace {

constexpr int64_t kMs = 1'000'000;

Span span(Activity activity, int64_t begin_ms, int64_t end_ms, int32_t id = -1, int64_t bytes = 0) {
  return {activity, id, begin_ms * kMs, end_ms * kMs, bytes};
}

TEST_CASE("a summary separates hidden from exposed communication") {
  Timeline timeline;
  timeline.begin_step(7);
  timeline.record(span(Activity::kDataWait, 0, 2));
  timeline.record(span(Activity::kForward, 2, 12));
  timeline.record(span(Activity::kBackward, 12, 42));
  timeline.record(span(Activity::kCommWait, 36, 42));  // the end of backward waits
  timeline.record(span(Activity::kOptimizer, 43, 45));
  std::thread worker([&] {
    timeline.record(span(Activity::kCommunication, 20, 30, 0, 100));  // under backward
    timeline.record(span(Activity::kCommunication, 28, 33, 1, 200));  // overlaps the one before
    timeline.record(
        span(Activity::kCommunication, 34, 43, 2, 300));  // 2 ms under backward, 7 exposed
  });
  worker.join();
  const StepSummary summary = timeline.end_step();
  CHECK(summary.step == 7);
  CHECK(summary.of(Activity::kDataWait) == doctest::Approx(2));
  CHECK(summary.of(Activity::kForward) == doctest::Approx(10));
  CHECK(summary.of(Activity::kBackward) == doctest::Approx(24));
  CHECK(summary.of(Activity::kCommWait) == doctest::Approx(6));
  CHECK(summary.of(Activity::kOptimizer) == doctest::Approx(2));
  CHECK(summary.comm_total == doctest::Approx(22));
  CHECK(summary.comm_exposed == doctest::Approx(7));
  CHECK(summary.comm_hidden == doctest::Approx(15));
  CHECK(summary.comm_bytes == 600);
  CHECK(summary.dropped == 0);
}

TEST_CASE("what a step does under no span is other, and a wait without a transfer is for peers") {
  StepEvents step{.step = 0, .begin_ns = 10 * kMs, .end_ns = 110 * kMs, .events = {}};
  for (const Span& s :
       {span(Activity::kDataWait, 5, 20),  // begins before the step: counts once
        span(Activity::kForward, 20, 40), span(Activity::kBackward, 45, 100),
        span(Activity::kCommWait, 80, 100, 0), span(Activity::kCommunication, 70, 85, 0),
        span(Activity::kCommunication, 90, 95, 1)}) {
    step.events.push_back({s, 0});
  }
  const StepSummary summary = summarize(step);
  CHECK(summary.other == doctest::Approx(5 + 10));
  CHECK(summary.peer_wait == doctest::Approx(5 + 5));
  CHECK(summary.comm_exposed == doctest::Approx(5 + 5));
  CHECK(summary.comm_hidden == doctest::Approx(10));
  CHECK(summary.of(Activity::kBackward) == doctest::Approx(35));
}

TEST_CASE("events of the last few steps are kept") {
  Timeline timeline({.keep_last = 2});
  CHECK(timeline.last_step().events.empty());
  for (int64_t step = 0; step < 14; ++step) {
    timeline.begin_step(step);
    { const ScopedSpan scoped(&timeline, Activity::kForward); }
    CHECK(timeline.end_step().step == step);
    CHECK(timeline.last_step().step == step);
  }
  std::vector<int64_t> steps;
  for (const StepEvents& kept : timeline.kept()) {
    steps.push_back(kept.step);
    CHECK(kept.events.size() == 1);
  }
  CHECK(steps == std::vector<int64_t>{12, 13});
}

TEST_CASE("a full ring drops and says so") {
  Timeline timeline({.ring_capacity = 4});
  for (int round = 0; round < 3; ++round) {
    timeline.begin_step(round);
    for (int i = 0; i < 6; ++i) timeline.record(span(Activity::kForward, i, i + 1));
    const StepSummary summary = timeline.end_step();
    CHECK(summary.dropped == 2);
    CHECK(summary.of(Activity::kForward) == doctest::Approx(4));
  }
}

TEST_CASE("many threads record while steps end, and nothing is lost") {
  constexpr int kThreads = 4, kEach = 2000;
  Timeline timeline({.ring_capacity = kEach});
  std::vector<std::thread> threads;
  timeline.begin_step(0);
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < kEach; ++i) timeline.record({Activity::kCommunication, i, 0, 1, 1});
    });
  }
  int64_t seen = 0, dropped = 0;
  for (int step = 0; step < 50; ++step) {
    const StepSummary summary = timeline.end_step();
    seen += summary.comm_bytes;
    dropped += summary.dropped;
    timeline.begin_step(step + 1);
  }
  for (std::thread& thread : threads) thread.join();
  const StepSummary summary = timeline.end_step();
  CHECK(seen + summary.comm_bytes == kThreads * kEach);
  CHECK(dropped + summary.dropped == 0);
}

TEST_CASE("two timelines of one thread do not mix") {
  Timeline a, b;
  a.begin_step(0);
  b.begin_step(0);
  for (int i = 0; i < 10; ++i) {
    a.record(span(Activity::kForward, 0, 1));
    Timeline other;
    other.record(span(Activity::kForward, 0, 9));
    b.record(span(Activity::kForward, 0, 2));
  }
  CHECK(a.end_step().of(Activity::kForward) == doctest::Approx(1));
  CHECK(b.end_step().of(Activity::kForward) == doctest::Approx(2));
}

}  // namespace
}  // namespace lockstep
