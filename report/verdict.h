// What limits a run, in plain words: three sentences by rules from its numbers.
#pragma once

#include "lockstep/report/breakdown.h"

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::report {

/// What the rules look at. Times are milliseconds of a typical step.
struct Facts {
  StepRecord step;     // the mean over the ranks
  double exposed = 0;  // on the rank that has least: what the others have beyond it is for it
  std::vector<BucketSummary> buckets;
  int world_size = 1;
  std::string mode;       // "overlapped", ...
  std::string comm_hook;  // empty: none
  int64_t grad_accum_steps = 1;
  int64_t batch_size = 0;  // 0: not known
  int late_rank = -1;      // the one that launches buckets last, and by how much
  double late = kNever;
  double start_delay = kNever;  // breakdown.h
};

struct Verdict {
  std::string where;  // where the time goes
  std::string why;    // what limits the run
  std::string what;   // what to try, with the flag
  std::string rule;   // the name of the rule that spoke: "input-bound", "hidden", ...
};
Verdict verdict_of(const Facts& facts);

/// "0.42", "4.2", "42": three digits or so.
std::string short_number(double value);

}  // namespace lockstep::report
