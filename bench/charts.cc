#include "lockstep/bench/charts.h"

#include "lockstep/base/error.h"
#include "lockstep/report/svg_chart.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace lockstep::bench {
namespace {

using report::Axis;
using report::Chart;
using report::draw_text;

constexpr double kWidth = 860, kMargin = 16, kLabels = 200, kRow = 30, kBar = 20;

std::string number(double value, int digits = 0) {
  char text[32];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

/// The parts of a step in the order in which they happen; lighter and darker in turn, so that they
/// can be told apart in grey.
struct Part {
  const char* name;
  const char* colour;
};
constexpr std::array<Part, 4> kParts = {{{"forward", "#7fb0e6"},
                                         {"backward", "#2f6db5"},
                                         {"exposed communication", "#d9663d"},
                                         {"rest: optimizer, waiting", "#b4b4b4"}}};

std::array<double, kParts.size()> parts_of(const WayCost& cost) {
  const double rest = cost.wall - cost.forward - cost.backward - cost.exposed;
  return {cost.forward, cost.backward, cost.exposed, std::max(rest, 0.0)};
}

std::string rectangle(double x, double y, double width, double height, const char* colour) {
  return str("<rect x=\"", number(x, 1), "\" y=\"", number(y, 1), "\" width=\"", number(width, 1),
             "\" height=\"", number(height, 1), "\" style=\"fill:", colour, "\"/>\n");
}

/// Names beside their colours, from `left` on.
std::string legend(double top) {
  std::string svg;
  double left = kMargin;
  for (const Part& part : kParts) {
    svg += rectangle(left, top - 10, 12, 12, part.colour);
    svg += draw_text(left + 18, top, part.name, "note");
    left += 48 + 7 * static_cast<double>(std::string(part.name).size());
  }
  return svg;
}

/// `top` is where the rows begin.
std::string bars(const std::vector<WayCost>& ways, double top) {
  double longest = 0;
  for (const WayCost& way : ways) longest = std::max(longest, way.wall);
  const double scale = (kWidth - kLabels - kMargin - 80) / std::max(longest, 1e-9);
  std::string svg;
  for (const WayCost& way : ways) {
    svg += draw_text(kMargin, top + kBar - 5, way.way.name(), "");
    double left = kLabels;
    const auto parts = parts_of(way);
    for (size_t i = 0; i < parts.size(); ++i) {
      svg += rectangle(left, top, parts[i] * scale, kBar, kParts[i].colour);
      left += parts[i] * scale;
    }
    svg += draw_text(left + 8, top + kBar - 5, number(way.wall) + " ms", "");
    top += kRow;
  }
  return svg;
}

/// Sizes at equal distances, because 0 has no logarithm.
std::string by_cap(const std::vector<WayCost>& caps, double top, double height) {
  Chart chart{.title = "Step by bucket size, ms", .x_title = "MB"};
  chart.x = {.low = -0.3, .high = static_cast<double>(caps.size()) - 0.7};
  double low = caps[0].wall, high = low;
  for (size_t i = 0; i < caps.size(); ++i) {
    chart.x.ticks.push_back(static_cast<double>(i));
    chart.x.names.push_back(str(caps[i].way.cap_mb));
    low = std::min(low, caps[i].wall);
    high = std::max(high, caps[i].wall);
  }
  report::Line line;
  for (size_t i = 0; i < caps.size(); ++i) {
    line.points.emplace_back(static_cast<double>(i), caps[i].wall);
  }
  chart.lines = {line};
  chart.y = report::nice_axis(low, high, 5);
  return draw_chart(chart, {kMargin, top, kWidth - 2 * kMargin, height});
}

}  // namespace

std::string step_chart(const std::string& title, const std::vector<WayCost>& modes,
                       const std::vector<WayCost>& caps) {
  double top = 60;
  std::string body = draw_text(kMargin, 28, title, "title") + legend(48) + bars(modes, top);
  top += kRow * static_cast<double>(modes.size()) + 12;
  constexpr double kChart = 220;
  if (!caps.empty()) {
    body += by_cap(caps, top, kChart);
    top += kChart + 12;
  }
  return report::svg_document(kWidth, top, body);
}

std::string sweep_chart(const std::string& title, const std::vector<SweepPoint>& points) {
  check(!points.empty(), "sweep_chart: wanted at least one size");
  Chart chart{.title = title + ", seconds", .x_title = "elements of one tensor"};
  report::Line line;
  double low = points[0].seconds, high = low;
  for (const SweepPoint& point : points) {
    line.points.emplace_back(static_cast<double>(point.size), point.seconds);
    low = std::min(low, point.seconds);
    high = std::max(high, point.seconds);
  }
  std::sort(line.points.begin(), line.points.end());
  chart.x = report::log_axis(line.points.front().first, line.points.back().first, 6);
  chart.y = report::log_axis(std::max(low, 1e-9), std::max(high, 1e-9), 6);
  chart.lines = {line};
  constexpr double kHeight = 320;
  return report::svg_document(kWidth, kHeight,
                              draw_chart(chart, {kMargin, 8, kWidth - 2 * kMargin, kHeight - 16}));
}

}  // namespace lockstep::bench
