// A run's folder as a trainer would leave it, of steps that are made up: what goes wrong in them is
// known.
#pragma once

#include <cstdint>
#include <string>

namespace lockstep::testing {

/// Milliseconds. Each step: 2 of data wait, 30 of forward, 60 of backward, at whose end the buckets
/// are complete one after the other, waits for them, 8 of the optimizer.
struct Sample {
  int ranks = 2;
  int64_t steps = 40;
  int buckets = 3;
  double transfer = 5;      // of a bucket
  double late = 0;          // the last rank computes as much longer in backward
  double start_delay = 0;   // between the last rank's launch of a bucket and its transfer
  int64_t clock_ahead = 0;  // ns, of each rank to the one before
  std::string model = "resnet18";
  std::string parameter = "layer.weight";  // one in each bucket
  bool ends = true;
};

/// Writes run.json, metrics.jsonl, bucket_plan.json and steps.rankN.jsonl into `dir`, with a log
/// interval of 10 steps. Buckets have 1 MB each.
void write_sample(const std::string& dir, const Sample& sample);

}  // namespace lockstep::testing
