// What a training step costs in each way of averaging gradients, measured side by side.
//
// The ways take turns step by step, in a random order that is the same on every rank; all ranks
// begin each step together. A step takes as long as on its slowest rank.
#pragma once

#include "lockstep/bench/contender.h"

#include <functional>
#include <string>
#include <vector>

namespace lockstep::bench {

struct StepBenchOptions {
  Workload workload;
  std::vector<Way> ways;
  int rounds = 15;
  int warmup = 2;  // rounds that do not count
};

/// Milliseconds of one backward of a way: medians, and the 90th percentile of `wall`. With
/// sync_every, a step's cost divided by it. All but `wall` are rank 0's.
struct WayCost {
  Way way;
  double wall = 0, wall_p90 = 0;
  double forward = 0, backward = 0;
  double comm = 0, hidden = 0, exposed = 0;
  double cpu = 0;
};

/// Called on rank 0 before each step with the number of steps that are done and of all.
using StepBenchProgress = std::function<void(int done, int all)>;

/// In the order of `options.ways`; `wall` has the same bits on every rank. Collective.
std::vector<WayCost> measure_ways(const StepBenchOptions& options, ProcessGroup& group,
                                  const StepBenchProgress& progress = {});

/// How much of the communication that could be hidden was, from the costs of one run.
struct OverlapEfficiency {
  /// (bucketed - overlapped) / min(backward, communication); 1: all that backward could cover.
  double efficiency = 0;
  /// What the processor time that communication takes leaves of it, where all processors compute
  /// anyway: (communication - processor time) / min(backward, communication), from 0 to 1. That
  /// time, beyond local's, differs: while ranks sleep in a bucketed step, the kernel's interrupts
  /// are nobody's time; in an overlapped one they are, and computing finds its caches used.
  double bound_bucketed = 1;
  double bound_overlapped = 1;
  /// bucketed / (local + communication): the figures above mean something within 5 % of 1.
  double additivity = 0;
};

OverlapEfficiency overlap_efficiency(const WayCost& local, const WayCost& bucketed,
                                     const WayCost& overlapped);

/// A Markdown table of the costs, the first of which is what the others are compared with.
std::string cost_table(const std::vector<WayCost>& costs);
/// "overlap efficiency 0.93 of at most 0.95 ...".
std::string to_text(const OverlapEfficiency& efficiency);

}  // namespace lockstep::bench
