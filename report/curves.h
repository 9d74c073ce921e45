// How a run went: loss, accuracy, throughput and the time of its steps, as charts.
#pragma once

#include "lockstep/report/run_data.h"
#include "lockstep/report/run_steps.h"

#include <string>

namespace lockstep::report {

/// An SVG element. Long runs are thinned to some 300 points a line, each the mean of neighbours.
std::string run_curves(const RunData& run, const RunSteps& steps);

}  // namespace lockstep::report
