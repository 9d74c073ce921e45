// The axes of a chart: which range they show, where their ticks are, and what these are called.
#pragma once

#include <string>
#include <vector>

namespace lockstep::report {

struct Axis {
  double low = 0, high = 1;  // low < high
  bool logarithmic = false;  // then low > 0
  std::vector<double> ticks = {};
  std::vector<std::string> names = {};  // of the ticks

  /// Where `value` lies: 0 at low, 1 at high. Values outside give what lies outside.
  double position(double value) const;
};

/// An axis that shows `low` to `high` with about `ticks` ticks at 1, 2 or 5 times a power of ten,
/// and ends on ticks. Any finite numbers will do: equal ones are widened.
Axis nice_axis(double low, double high, int ticks);

/// As nice_axis, but from 0 and ending at `high` itself, for an abscissa: time, epochs.
Axis axis_from_zero(double high, int ticks);

/// Powers of ten, and what is between them while there is room. 0 < low <= high.
Axis log_axis(double low, double high, int ticks);

/// "0.05", "12", "2000", "1e-05": `value` with the digits that tell multiples of `step` apart.
std::string tick_name(double value, double step);

}  // namespace lockstep::report
