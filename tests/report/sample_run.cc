#include "lockstep/tests/report/sample_run.h"

#include "lockstep/tests/support/temp_dir.h"
#include "lockstep/train/step_log.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

namespace lockstep::testing {
namespace {

constexpr double kDataWait = 2, kForward = 30, kBackward = 60, kOptimizer = 8, kStepEvery = 1000;
constexpr int64_t kBytes = 1'000'000, kInterval = 10;

/// When things happen, in milliseconds of the step.
class Step {
 public:
  Step(const Sample& sample, int64_t number) : sample_(sample), number_(number) {
    double before = 0;
    for (int b = 0; b < sample.buckets; ++b) {
      const double possible = ready(sample.ranks - 1, b) + sample.start_delay;
      starts_.push_back(std::max(possible, before));
      before = starts_.back() + sample.transfer;
    }
  }

  StepEvents on(int rank) const {
    const int64_t origin = std::llround(kStepEvery * 1e6 * static_cast<double>(number_ + 1)) +
                           rank * sample_.clock_ahead;
    StepEvents step{.step = number_, .begin_ns = origin, .end_ns = origin, .events = {}};
    const auto add = [&](Activity activity, double begin, double end, int32_t bucket = -1) {
      const bool sent = activity == Activity::kCommunication;
      step.events.push_back({{activity, bucket, origin + std::llround(begin * 1e6),
                              origin + std::llround(end * 1e6), sent ? kBytes : 0},
                             sent ? 1 : 0});
    };
    const double begin = kDataWait + kForward;
    add(Activity::kDataWait, 0, kDataWait);
    add(Activity::kForward, kDataWait, begin);
    double now = begin + backward(rank);
    for (int b = 0; b < sample_.buckets && sample_.ranks > 1; ++b) {
      const double start = starts_[static_cast<size_t>(b)], finish = start + sample_.transfer;
      add(Activity::kBucketReady, ready(rank, b), ready(rank, b), b);
      add(Activity::kBucketLaunch, ready(rank, b), ready(rank, b), b);
      add(Activity::kCommunication, start, finish, b);
      add(Activity::kCommWait, now, std::max(now, finish), b);
      now = std::max(now, finish);
    }
    add(Activity::kBackward, begin, now);
    add(Activity::kOptimizer, now, now + kOptimizer);
    step.end_ns = origin + std::llround((now + kOptimizer) * 1e6);
    return step;
  }

 private:
  double backward(int rank) const {
    return kBackward + (rank == sample_.ranks - 1 ? sample_.late : 0);
  }
  double ready(int rank, int bucket) const {
    return kDataWait + kForward + backward(rank) * (bucket + 1) / sample_.buckets;
  }

  const Sample& sample_;
  int64_t number_;
  std::vector<double> starts_;
};

void write_steps(const std::string& dir, const Sample& sample, int rank) {
  const ClockOffset clock{
      .offset_ns = rank * sample.clock_ahead, .error_ns = rank == 0 ? 0 : 2000, .at_ns = 0};
  StepLog log({.directory = dir, .rank = rank, .world_size = sample.ranks, .clock = clock});
  std::vector<StepEvents> last;
  for (int64_t number = 0; number < sample.steps; ++number) {
    last.push_back(Step(sample, number).on(rank));
    log.add(summarize(last.back()), last.back());
    if (last.size() > 3) last.erase(last.begin());
    if ((number + 1) % kInterval == 0) log.end_interval(number / kInterval, last);
  }
  if (sample.ends) log.end(clock);
}

}  // namespace

void write_sample(const std::string& dir, const Sample& sample) {
  for (int rank = 0; rank < sample.ranks; ++rank) write_steps(dir, sample, rank);
  nlohmann::json run = {{"world_size", sample.ranks}};
  run["settings"] = {{"model", sample.model},   {"dataset", "digits"}, {"ddp-mode", "overlapped"},
                     {"grad-accum-steps", "1"}, {"comm-hook", ""},     {"batch-size", "32"}};
  write_file(dir + "/run.json", run.dump());
  nlohmann::json plan = {{"format", 1}, {"buckets", nlohmann::json::array()}};
  for (int b = 0; b < sample.buckets; ++b) {
    plan["buckets"].push_back(
        {{"dtype", "f32"}, {"bytes", kBytes}, {"params", {sample.parameter}}});
  }
  write_file(dir + "/bucket_plan.json", plan.dump());
  std::string metrics;
  for (int64_t step = kInterval; step <= sample.steps; step += kInterval) {
    metrics += nlohmann::json({{"kind", "train"},
                               {"epoch", 0},
                               {"step", step},
                               {"loss", 100.0 / static_cast<double>(step)},
                               {"accuracy", 0.5},
                               {"samples_per_second", 400}})
                   .dump() +
               "\n";
  }
  write_file(dir + "/metrics.jsonl", metrics);
}

}  // namespace lockstep::testing
