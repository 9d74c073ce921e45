// Runs beside each other: as a picture, as a table of values, as a few words.
#pragma once

#include "lockstep/report/run_data.h"

#include <string>
#include <vector>

namespace lockstep::report {

/// A short name for each run: the settings in which they differ ("lr=0.1, nproc=2"), not those that
/// say where files are; the name of the folder where that is too long, tells two runs apart no
/// better, or there is one run alone.
std::vector<std::string> labels_of(const std::vector<RunData>& runs);

/// Training loss and test accuracy against time and against epochs, an SVG file. At most
/// kLineStyles runs (svg_chart.h).
std::string compare_svg(const std::vector<RunData>& runs);

/// All lines of all runs: run, label, kind, and a column for each field (RFC 4180).
std::string compare_csv(const std::vector<RunData>& runs);

/// For the console: a line for each run.
std::string compare_table(const std::vector<RunData>& runs);

}  // namespace lockstep::report
