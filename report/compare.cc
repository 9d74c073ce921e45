#include "lockstep/report/compare.h"

#include "lockstep/base/error.h"
#include "lockstep/report/svg_chart.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lockstep::report {
namespace {

constexpr double kWidth = 1000, kMargin = 16, kPanelHeight = 270;
constexpr size_t kMostPoints = 300;  // of a line
constexpr double kLogarithmic = 30;  // how far losses may differ on a linear axis

/// What a panel shows of a run.
struct Quantity {
  bool of_evaluations;
  const char* field;
  double factor;
};
constexpr Quantity kLoss{false, "loss", 1}, kAccuracy{true, "test_accuracy", 100};

double seconds_of(const RunLine& line) { return line["seconds"]; }
double epochs_of(const RunLine& line) {
  return line.kind == "epoch" ? line["epoch"] + 1 : line["epochs_done"];
}

Points points_of(const RunData& run, const Quantity& quantity, double (*x_of)(const RunLine&)) {
  Points points;
  for (const RunLine& line : quantity.of_evaluations ? run.evaluations() : run.of_kind("train")) {
    const double x = x_of(line), y = line[quantity.field] * quantity.factor;
    // A damaged file may hold anything.
    if (std::abs(x) < 1e15 && std::abs(y) < 1e15 && x >= 0) points.emplace_back(x, y);
  }
  std::stable_sort(points.begin(), points.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  return thinned(points, kMostPoints);
}

struct Range {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void add(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

Axis loss_axis(const Range& range) {
  const bool log = range.low > 0 && range.high > kLogarithmic * range.low;
  return log ? log_axis(range.low, range.high, 6) : nice_axis(range.low, range.high, 5);
}

Axis accuracy_axis(const Range& range) {
  Axis axis = nice_axis(range.low, range.high, 5);
  if (range.high <= 100 && axis.high > 100) {  // one value alone was widened
    axis.high = 100;
    std::erase_if(axis.ticks, [](double tick) { return tick > 100; });
    axis.names.resize(axis.ticks.size());
  }
  return axis;
}

/// Seconds, minutes or hours, whatever gives small numbers.
std::pair<double, const char*> unit_of_time(double most) {
  if (most < 180) return {1, "time, s"};
  return most < 180 * 60 ? std::pair{60.0, "time, min"} : std::pair{3600.0, "time, h"};
}

Chart panel(const std::vector<RunData>& runs, const Quantity& quantity, bool over_time) {
  Chart chart;
  Range x, y;
  for (size_t i = 0; i < runs.size(); ++i) {
    chart.lines.push_back({points_of(runs[i], quantity, over_time ? seconds_of : epochs_of), i});
    for (const auto& [at, value] : chart.lines.back().points) {
      x.add(at);
      y.add(value);
    }
  }
  const bool loss = !quantity.of_evaluations;
  chart.x_title = over_time ? "time" : "epochs";
  chart.title = loss ? "Training loss" : "Test accuracy, %";
  if (y.high < y.low) return chart;  // no values
  if (over_time) {
    const auto [unit, title] = unit_of_time(x.high);
    chart.x_title = title;
    for (Line& line : chart.lines) {
      for (auto& [at, value] : line.points) at /= unit;
    }
    x.high /= unit;
  }
  chart.x = axis_from_zero(x.high, 6);
  chart.y = loss ? loss_axis(y) : accuracy_axis(y);
  if (chart.y.logarithmic) chart.title += " (logarithmic)";
  return chart;
}

/// "resnet8, digits": what the runs have in common.
std::string common(const std::vector<RunData>& runs) {
  std::string text;
  for (const char* name : {"model", "dataset"}) {
    const std::string value = runs.front().setting(name);
    const bool same = std::all_of(runs.begin(), runs.end(),
                                  [&](const RunData& run) { return run.setting(name) == value; });
    if (same && !value.empty()) text += (text.empty() ? "" : ", ") + value;
  }
  return text;
}

}  // namespace

std::string compare_svg(const std::vector<RunData>& runs) {
  check(!runs.empty() && runs.size() <= kLineStyles, "compare: wanted 1 to ", kLineStyles,
        " runs, got ", runs.size());
  const std::vector<std::string> labels = labels_of(runs);
  std::vector<std::pair<size_t, std::string>> legend;
  for (size_t i = 0; i < runs.size(); ++i) legend.emplace_back(i, labels[i]);

  const double inner = kWidth - 2 * kMargin, panel_width = inner / 2;
  std::string head = common(runs);
  if (head.empty()) head = str(runs.size(), runs.size() == 1 ? " run" : " runs");
  std::string body = draw_text(kMargin, kMargin + 14, head, "head");
  double top = kMargin + 28;
  const double height = legend_height(legend, inner);
  body += draw_legend(legend, {kMargin, top, inner, height});
  top += height + 14;
  for (const Quantity& quantity : {kLoss, kAccuracy}) {
    double left = kMargin;
    for (const bool over_time : {true, false}) {
      body += draw_chart(panel(runs, quantity, over_time), {left, top, panel_width, kPanelHeight});
      left += panel_width;
    }
    top += kPanelHeight + 10;
  }
  return svg_document(kWidth, top, body);
}

}  // namespace lockstep::report
