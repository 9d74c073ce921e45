#include "lockstep/report/curves.h"

#include "lockstep/base/str.h"
#include "lockstep/report/svg_chart.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace lockstep::report {
namespace {

constexpr size_t kMostPoints = 300;
constexpr double kWidth = 470, kHeight = 230, kGap = 20;

struct Curve {
  std::string name;
  Points points = {};
};

/// A field of the lines, against the step.
Curve curve(const std::vector<RunLine>& lines, const char* name, const char* field,
            double factor = 1) {
  Curve result{name};
  for (const RunLine& line : lines) {
    const double x = line["step"], y = line[field];
    if (std::isfinite(x) && std::isfinite(y)) result.points.emplace_back(x, factor * y);
  }
  std::stable_sort(result.points.begin(), result.points.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  return result;
}

template <class Get>
Curve curve(const RankLog& log, const char* name, const Get& get) {
  Curve result{name};
  for (const StepRecord& step : log.steps) {
    const double y = get(step);
    // The first takes memory and plans: on its scale the others would look alike.
    if (std::isfinite(y) && step.step > 0) {
      result.points.emplace_back(static_cast<double>(step.step + 1), y);
    }
  }
  std::stable_sort(result.points.begin(), result.points.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  return result;
}

std::string chart(const char* title, const std::vector<Curve>& curves, bool from_zero, double left,
                  double top) {
  double last = 1, low = INFINITY, high = -INFINITY;
  Chart chart{.title = title, .x_title = "optimizer step", .x = {}, .y = {}, .lines = {}};
  std::vector<std::pair<size_t, std::string>> names;
  for (size_t i = 0; i < curves.size(); ++i) {
    if (curves[i].points.empty()) continue;
    chart.lines.push_back({thinned(curves[i].points, kMostPoints), i});
    names.emplace_back(i, curves[i].name);
    for (const auto& [x, y] : chart.lines.back().points) {
      last = std::max(last, x);
      low = std::min(low, y);
      high = std::max(high, y);
    }
  }
  if (chart.lines.empty()) low = high = 0;
  chart.x = axis_from_zero(last, 6);
  chart.y = nice_axis(from_zero ? std::min(low, 0.0) : low, high, 5);
  const double legend = names.size() > 1 ? legend_height(names, kWidth - 60) : 0;
  std::string svg = draw_chart(chart, {left, top, kWidth, kHeight - legend});
  if (legend > 0) {
    svg += draw_legend(names, {left + 50, top + kHeight - legend, kWidth - 60, legend});
  }
  return svg;
}

}  // namespace

std::string run_curves(const RunData& run, const RunSteps& steps) {
  const RankLog& log = steps.ranks.front();
  const std::vector<RunLine> train = run.of_kind("train"), test = run.evaluations();
  const auto waits = [](const StepRecord& step) {
    return step.of(StepPart::kExposed) + step.of(StepPart::kPeerWait);
  };
  const double right = kWidth + kGap, below = kHeight + kGap;
  return str(
      "<svg class=\"chart\" viewBox=\"0 0 ", 2 * kWidth + kGap, " ", 2 * kHeight + kGap,
      "\" role=\"img\" aria-label=\"Loss, accuracy, throughput and the time of steps\">\n",
      chart("loss", {curve(train, "training", "loss"), curve(test, "test", "test_loss")}, true, 0,
            0),
      chart("accuracy, %",
            {curve(train, "training", "accuracy", 100), curve(test, "test", "test_accuracy", 100)},
            false, right, 0),
      chart("samples per second, all ranks", {curve(train, "samples/s", "samples_per_second")},
            true, 0, below),
      chart(str("time of a step on rank ", log.rank, ", ms").c_str(),
            {curve(log, "whole step", [](const StepRecord& step) { return step.wall; }),
             curve(log, "exposed communication and waiting for ranks", waits)},
            true, right, below),
      "</svg>\n");
}

}  // namespace lockstep::report
