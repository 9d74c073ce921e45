// Where a step's time goes, as a picture and as a table.
#pragma once

#include "lockstep/report/breakdown.h"

#include <span>
#include <string>

namespace lockstep::report {

/// The colour class of a part: "p0" ... "p5", and "p6" for what no part covers.
std::string part_class(size_t part);

/// A bar for each rank's typical step, at most `most` of them, the slowest first if there are more;
/// an SVG element with its legend.
std::string breakdown_bars(std::span<const RankSummary> ranks, size_t most = 16);

/// The parts of a step, and communication: typical, median, 90th percentile, over `ranks`' means.
std::string parts_table(std::span<const RankSummary> ranks);

/// The mean of a number of the ranks' breakdowns: `member` is &Breakdown::typical or another.
StepRecord mean_over(std::span<const RankSummary> ranks, StepRecord Breakdown::*member);

}  // namespace lockstep::report
