#include "lockstep/train/step_record.h"

#include <doctest/doctest.h>

#include <cmath>

namespace lockstep {
namespace {

constexpr int64_t kMs = 1'000'000;

/// A step of 100 ms whose spans cover it, with a wait that is partly for another rank.
StepEvents whole_step() {
  StepEvents step{.step = 3, .begin_ns = 1000 * kMs, .end_ns = 1100 * kMs, .events = {}};
  const auto add = [&](Activity activity, int64_t begin, int64_t end, int32_t bucket = -1) {
    step.events.push_back(
        {{activity, bucket, (1000 + begin) * kMs, (1000 + end) * kMs, bucket >= 0 ? 64 : 0}, 0});
  };
  add(Activity::kDataWait, 0, 5);
  add(Activity::kForward, 5, 30);
  add(Activity::kBackward, 30, 90);
  add(Activity::kBucketReady, 45, 45, 0);
  add(Activity::kBucketLaunch, 46, 46, 0);
  add(Activity::kCommunication, 50, 58, 0);
  add(Activity::kBucketReady, 70, 70, 1);
  add(Activity::kBucketLaunch, 71, 71, 1);
  add(Activity::kCommWait, 72, 72, 0);
  add(Activity::kCommWait, 72, 90, 1);
  add(Activity::kCommunication, 77, 90, 1);
  add(Activity::kOptimizer, 90, 100);
  return step;
}

TEST_CASE("the parts of a step are its wall time") {
  const StepRecord step = record_of(summarize(whole_step()));
  CHECK(step.wall == doctest::Approx(100));
  CHECK(step.of(StepPart::kForward) == doctest::Approx(25));
  CHECK(step.of(StepPart::kBackward) == doctest::Approx(42));
  CHECK(step.of(StepPart::kExposed) == doctest::Approx(13));
  CHECK(step.of(StepPart::kPeerWait) == doctest::Approx(5));
  CHECK(step.of(StepPart::kOptimizer) == doctest::Approx(10));
  CHECK(step.of(StepPart::kDataWait) == doctest::Approx(5));
  CHECK(step.hidden == doctest::Approx(8));
  CHECK(step.other == doctest::Approx(0));
  CHECK(step.bytes == 128);
  CHECK(unaccounted(step) < 1e-9);
}

TEST_CASE("a wrong interval shows: too long, too short, or beyond the step") {
  const auto missed = [](size_t event, int64_t begin_ms, int64_t end_ms) {
    StepEvents step = whole_step();
    step.events[event].span.begin_ns += begin_ms * kMs;
    step.events[event].span.end_ns += end_ms * kMs;
    return unaccounted(record_of(summarize(step)));
  };
  CHECK(missed(1, 0, 3) == doctest::Approx(0.03));   // forward reaches into backward
  CHECK(missed(1, 0, -3) == doctest::Approx(0.03));  // and ends before it
  CHECK(missed(11, 0, 4) == doctest::Approx(0.04));  // the optimizer's goes on after the step
  CHECK(missed(2, 0, -18) == doctest::Approx(0));    // backward without its wait: it has its own
  CHECK(missed(10, 0, 6) == doctest::Approx(0));     // under the optimizer it is hidden
  CHECK(unaccounted(StepRecord{}) == 0);
}

TEST_CASE("each bucket's life, from the begin of backward") {
  std::vector<BucketRecord> buckets(5);
  bucket_records(whole_step(), buckets);
  REQUIRE(buckets.size() == 2);
  CHECK(buckets[0].ready == doctest::Approx(15));
  CHECK(buckets[0].launch == doctest::Approx(16));
  CHECK(buckets[0].start == doctest::Approx(20));
  CHECK(buckets[0].finish == doctest::Approx(28));
  CHECK(buckets[0].wait == doctest::Approx(0));
  CHECK(buckets[1].wait == doctest::Approx(18));
  CHECK(buckets[1].bytes == 64);

  StepEvents accumulated = whole_step();  // an earlier micro-batch has a backward, too
  accumulated.events.push_back({{Activity::kBackward, -1, 1010 * kMs, 1015 * kMs, 0}, 0});
  bucket_records(accumulated, buckets);
  CHECK(buckets[0].ready == doctest::Approx(15));

  accumulated.events = {{{Activity::kBucketReady, 1, 1050 * kMs, 1050 * kMs, 0}, 0}};
  bucket_records(accumulated, buckets);
  CHECK(std::isnan(buckets[0].ready));
  CHECK(std::isnan(buckets[1].finish));
}

TEST_CASE("medians leave out what did not happen") {
  std::vector<double> values = {3, kNever, 1, 2};
  CHECK(median(values) == 2);
  values = {4, 1, 3, 2};
  CHECK(median(values) == 2.5);
  values = {kNever};
  CHECK(std::isnan(median(values)));
}

}  // namespace
}  // namespace lockstep
