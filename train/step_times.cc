#include "lockstep/train/step_times.h"

#include "lockstep/train/step_record.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace lockstep {
namespace {

/// The share of a step above which waiting for data is worth a word.
constexpr double kInputBound = 0.05;

/// Three significant digits or so: 0.42, 4.2, 42.
std::string ms_text(double ms) {
  char text[32];
  std::snprintf(text, sizeof text, ms < 1 ? "%.2f" : ms < 10 ? "%.1f" : "%.0f", ms);
  return text;
}

}  // namespace

StepTimes::StepTimes(size_t capacity) : steps_(std::max<size_t>(capacity, 1)) {}

void StepTimes::add(const StepSummary& summary) {
  auto& step = steps_[count_++ % steps_.size()];
  step[kForward] = summary.of(Activity::kForward);
  step[kBackward] = summary.of(Activity::kBackward);
  step[kExposed] = summary.comm_exposed;
  step[kPeerWait] = summary.peer_wait;
  step[kOptimizer] = summary.of(Activity::kOptimizer);
  step[kDataWait] = summary.of(Activity::kDataWait);
  step[kGraph] = summary.of(Activity::kGraph);
  step[kHidden] = summary.comm_hidden;
  step[kWall] = summary.wall;
  step[kBytes] = static_cast<double>(summary.comm_bytes);
  step[kUnaccounted] = unaccounted(record_of(summary));
}

double StepTimes::mean(Kind kind, size_t steps) const {
  steps = std::min(steps, size());
  if (steps == 0) return 0;
  double sum = 0;
  for (size_t i = count_ - steps; i < count_; ++i) sum += steps_[i % steps_.size()][kind];
  return sum / static_cast<double>(steps);
}

double StepTimes::quantile(Kind kind, double q) const {
  if (size() == 0) return 0;
  std::vector<double> values(size());
  for (size_t i = 0; i < values.size(); ++i) values[i] = steps_[i][kind];
  const auto rank = static_cast<size_t>(std::ceil(q * static_cast<double>(values.size())));
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(std::max<size_t>(rank, 1) - 1);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

std::string StepTimes::comm_phrase(size_t steps) const {
  const double hidden = mean(kHidden, steps), exposed = mean(kExposed, steps);
  const double wall = mean(kWall, steps);
  char percent[16];
  std::snprintf(percent, sizeof percent, "%.0f", wall > 0 ? 100 * exposed / wall : 0.0);
  return "comm " + ms_text(hidden + exposed) + " ms, " + ms_text(hidden) + " hidden, " +
         ms_text(exposed) + " exposed (" + percent + " %)";
}

std::string StepTimes::table() const {
  struct Row {
    const char* name;
    Kind kind;
  };
  constexpr Row kRows[] = {{"forward", kForward},
                           {"backward", kBackward},
                           {"exposed communication", kExposed},
                           {"waiting for other ranks", kPeerWait},
                           {"optimizer", kOptimizer},
                           {"data wait", kDataWait},
                           {"graph", kGraph},
                           {"hidden communication", kHidden},
                           {"whole step", kWall}};
  char line[96];
  std::snprintf(line, sizeof line, "%-24s %10s %10s\n", "per step, ms", "median", "p90");
  std::string text = line;
  for (const Row& row : kRows) {
    if (row.kind == kGraph && mean(kGraph, size()) == 0) continue;
    std::snprintf(line, sizeof line, "%-24s %10.2f %10.2f\n", row.name, quantile(row.kind, 0.5),
                  quantile(row.kind, 0.9));
    text += line;
  }
  std::snprintf(line, sizeof line, "%-24s %10.3f %10.3f\n", "gradients sent, MB",
                quantile(kBytes, 0.5) * 1e-6, quantile(kBytes, 0.9) * 1e-6);
  text += line;
  const double wall = mean(kWall, size()), share = wall > 0 ? mean(kDataWait, size()) / wall : 0;
  if (share > kInputBound) {
    std::snprintf(line, sizeof line, "input-bound: data wait is %.0f %% of a step; ", 100 * share);
    text += std::string(line) +
            "more --workers, a packed data set (lockstep pack --resize) or smaller images help\n";
  }
  const double missed = quantile(kUnaccounted, 0.5);
  if (missed > kMostUnaccounted) {
    std::snprintf(line, sizeof line, "the parts above miss the time of a step by %.1f %%; ",
                  100 * missed);
    text += std::string(line) + "something in it is not measured, or measured twice\n";
  }
  return text;
}

}  // namespace lockstep
