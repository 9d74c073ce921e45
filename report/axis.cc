#include "lockstep/report/axis.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace lockstep::report {
namespace {

/// 1, 2 or 5 times a power of ten, so that `span` is at most about `ticks` of them.
double nice_step(double span, int ticks) {
  const double rough = span / std::max(ticks, 1);
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= rough * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

void add_ticks(Axis& axis, double step) {
  const double first = std::ceil(axis.low / step - 1e-9), last = axis.high / step + 1e-9;
  for (double i = first; i <= last && axis.ticks.size() < 100; ++i) {
    axis.ticks.push_back(i * step);
    axis.names.push_back(tick_name(i * step, step));
  }
}

}  // namespace

double Axis::position(double value) const {
  if (!logarithmic) return (value - low) / (high - low);
  return std::log(value / low) / std::log(high / low);
}

std::string tick_name(double value, double step) {
  const int digits = std::clamp(static_cast<int>(-std::floor(std::log10(step) + 1e-9)), 0, 300);
  char text[400];
  if (std::abs(value) < step / 2) value = 0;  // not "-0"
  if (value != 0 && (std::abs(value) >= 1e7 || digits > 4)) {
    std::snprintf(text, sizeof text, "%g", value);
  } else {
    std::snprintf(text, sizeof text, "%.*f", digits, value);
  }
  return text;
}

Axis nice_axis(double low, double high, int ticks) {
  if (high < low) std::swap(low, high);
  const double least = 1e-9 * std::max({std::abs(low), std::abs(high), 1e-290});
  if (high - low < least) {
    const double margin = low == 0 ? 1 : std::abs(low) * 0.05;
    low -= margin;
    high += margin;
  }
  const double step = nice_step(high - low, ticks);
  Axis axis{.low = std::floor(low / step + 1e-9) * step,
            .high = std::ceil(high / step - 1e-9) * step};
  add_ticks(axis, step);
  return axis;
}

Axis axis_from_zero(double high, int ticks) {
  Axis axis{.low = 0, .high = high > 0 ? high : 1};
  add_ticks(axis, nice_step(axis.high, ticks));
  return axis;
}

Axis log_axis(double low, double high, int ticks) {
  Axis axis{.low = low, .high = std::max(high, low * 1.001), .logarithmic = true};
  const int first = static_cast<int>(std::floor(std::log10(low))),
            last = static_cast<int>(std::ceil(std::log10(axis.high)));
  const int every = std::max(1, (last - first) / std::max(ticks, 1));
  const std::vector<double> dense = {1, 2, 5}, sparse = {1};
  for (int power = first; power <= last; power += every) {
    const double base = std::pow(10, power);
    for (const double factor : 3 * (last - first) <= 2 * ticks ? dense : sparse) {
      const double value = factor * base;
      if (value < low * (1 - 1e-9) || value > axis.high * (1 + 1e-9)) continue;
      axis.ticks.push_back(value);
      axis.names.push_back(tick_name(value, base));
    }
  }
  return axis;
}

}  // namespace lockstep::report
