// The spans that the report's timeline shows, as JSON for its script (page/page.js).
#pragma once

#include "lockstep/report/plan_names.h"
#include "lockstep/report/run_steps.h"

#include <cstddef>
#include <string>
#include <vector>

namespace lockstep::report {

struct TimelineData {
  std::string json;  // without '<', so that nothing in it can end a script element
  std::string note;  // what was left out, in words; empty: nothing
};

/// A few sampled steps, spread over the run and the last among them, as many as `most_spans` allow:
///   {"buckets": [{"mb": 2.05}], "ranks": [0, 1], "steps": [8, 9],
///    "spans": {"RANK": {"STEP": [[activity, bucket, begin, end, bytes, thread], ...]}}}
/// Times are microseconds since the first rank began the step.
TimelineData timeline_data(const RunSteps& run, const std::vector<PlannedBucket>& plan,
                           size_t most_spans = 12'000);

}  // namespace lockstep::report
