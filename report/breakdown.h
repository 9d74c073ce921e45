// What a run's steps, buckets and ranks are like, from its step logs: the numbers of the report.
// Pure functions.
#pragma once

#include "lockstep/report/run_steps.h"
#include "lockstep/train/step_record.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace lockstep::report {

/// Of many steps. The first is left out where there are others: memory is taken and buckets are
/// planned in it.
struct Breakdown {
  size_t steps = 0;    // that were looked at
  StepRecord typical;  // the mean of the middle half by wall time, whose parts add up
  StepRecord median;   // of each part by itself
  StepRecord p90;
  size_t missed_steps = 0;  // whose parts miss their wall time by more than kMostUnaccounted
  double missed = 0;        // by how much the typical step's do
};
Breakdown breakdown_of(std::span<const StepRecord> steps);

struct BucketSummary {
  BucketRecord times;         // medians over the run's intervals and the ranks
  double transfer = kNever;   // ms, from start to finish
  double bandwidth = kNever;  // bytes/s of each rank's link: bytes * 2 (N-1) / N over the transfer
};
/// By the plan that was in force at the end. `world_size` is N.
std::vector<BucketSummary> buckets_of(const RunSteps& run);

/// The bucket that the end of backward waits for longest; -1 when no wait is 1 % of `wall` ms.
int critical_bucket(std::span<const BucketSummary> buckets, double wall);

struct RankSummary {
  int rank = 0;
  std::string host;
  Breakdown breakdown;
  double late = kNever;  // ms after the first rank that it launches a bucket; median
  ClockOffset clock;     // the first measurement
};
std::vector<RankSummary> ranks_of(const RunSteps& run);

/// Milliseconds from when all ranks have launched a bucket, and the one before has travelled, until
/// its transfer begins; the median over buckets of sampled steps. kNever when a rank's log lacks.
double start_delay(const RunSteps& run);

/// bytes * 2 (N-1) / N: what each rank's link carries in a ring all-reduce.
double ring_bytes(double bytes, int world_size);

}  // namespace lockstep::report
