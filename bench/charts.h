// Pictures of what benchmarks measured, as SVG files for light and dark screens.
#pragma once

#include "lockstep/bench/all_reduce_sweep.h"
#include "lockstep/bench/step_bench.h"

#include <string>
#include <vector>

namespace lockstep::bench {

/// Above a bar for each way, cut into what a step consists of; below step time by bucket size.
/// `caps` may be empty.
std::string step_chart(const std::string& title, const std::vector<WayCost>& modes,
                       const std::vector<WayCost>& caps);

/// Time to sum everything by the size of one tensor, both axes logarithmic.
std::string sweep_chart(const std::string& title, const std::vector<SweepPoint>& points);

}  // namespace lockstep::bench
