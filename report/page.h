// The report of a run: one HTML file that needs nothing else.
#pragma once

#include "lockstep/report/plan_names.h"
#include "lockstep/report/run_data.h"
#include "lockstep/report/run_steps.h"
#include "lockstep/report/verdict.h"

#include <span>
#include <string>
#include <vector>

namespace lockstep::report {

/// What verdict_of is asked.
Facts facts_of(const RunData& run, const RunSteps& steps, std::span<const RankSummary> ranks);

/// What is not as it should be, and how the numbers came about: a sentence each.
std::vector<std::string> notes_of(const RunData& run, const RunSteps& steps,
                                  std::span<const RankSummary> ranks);

std::string report_page(const RunData& run, const RunSteps& steps,
                        const std::vector<PlannedBucket>& plan);

}  // namespace lockstep::report
