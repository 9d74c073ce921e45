#include "lockstep/optim/schedule.h"

#include "lockstep/base/error.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace lockstep {

Schedule constant_schedule() {
  return [](int64_t) { return 1.0; };
}

Schedule step_schedule(int64_t every, double gamma) {
  check(every >= 1, "step_schedule: wanted every >= 1, got ", every);
  return [=](int64_t step) { return std::pow(gamma, static_cast<double>(step / every)); };
}

Schedule multi_step_schedule(std::vector<int64_t> milestones, double gamma) {
  check(std::is_sorted(milestones.begin(), milestones.end()),
        "multi_step_schedule: the milestones must rise");
  return [=, milestones = std::move(milestones)](int64_t step) {
    const auto passed =
        std::upper_bound(milestones.begin(), milestones.end(), step) - milestones.begin();
    return std::pow(gamma, static_cast<double>(passed));
  };
}

Schedule cosine_schedule(int64_t steps, double last) {
  check(steps >= 1, "cosine_schedule: wanted steps >= 1, got ", steps);
  return [=](int64_t step) {
    const double done = static_cast<double>(std::min(step, steps)) / static_cast<double>(steps);
    return last + (1 - last) * 0.5 * (1 + std::cos(std::numbers::pi * done));
  };
}

Schedule warmup_schedule(int64_t steps, double first) {
  check(steps >= 0, "warmup_schedule: wanted steps >= 0, got ", steps);
  return [=](int64_t step) {
    if (step >= steps) return 1.0;
    return first + (1 - first) * static_cast<double>(step) / static_cast<double>(steps);
  };
}

Schedule polynomial_schedule(int64_t steps, double power, double last) {
  check(steps >= 1, "polynomial_schedule: wanted steps >= 1, got ", steps);
  check(power > 0, "polynomial_schedule: wanted power > 0, got ", power);
  return [=](int64_t step) {
    const double left =
        static_cast<double>(steps - std::min(step, steps)) / static_cast<double>(steps);
    return last + (1 - last) * std::pow(left, power);
  };
}

Schedule warmup_linear_schedule(int64_t warmup, int64_t steps) {
  check(warmup >= 0 && warmup < steps, "warmup_linear_schedule: wanted 0 <= warmup < steps, got ",
        warmup, " and ", steps);
  return chain_schedules(warmup_schedule(warmup), warmup, polynomial_schedule(steps - warmup));
}

Schedule one_cycle_schedule(const OneCycleOptions& o) {
  check(o.steps >= 1, "one_cycle_schedule: wanted steps >= 1, got ", o.steps);
  check(o.pct_start >= 0 && o.pct_start <= (o.three_phases ? 0.5 : 1),
        "one_cycle_schedule: wanted pct_start from 0 to ", o.three_phases ? "0.5" : "1", ", got ",
        o.pct_start);
  check(o.div_factor > 0 && o.final_div_factor > 0,
        "one_cycle_schedule: wanted factors above 0, got ", o.div_factor, " and ",
        o.final_div_factor);
  struct Phase {
    double end_step, from, to;
  };
  const double start = 1 / o.div_factor, finish = start / o.final_div_factor;
  const auto steps = static_cast<double>(o.steps);
  const double top = o.pct_start * steps - 1;  // fractional, as PyTorch has it
  std::vector<Phase> phases{{top, start, 1}};
  if (o.three_phases) {
    phases.push_back({2 * top, 1, start});
    phases.push_back({steps - 1, start, finish});
  } else {
    phases.push_back({steps - 1, 1, finish});
  }
  return [phases = std::move(phases), cosine = o.cosine](int64_t step) {
    double begin = 0;
    const auto at = std::min(static_cast<double>(step), phases.back().end_step);
    size_t i = 0;
    for (; i + 1 < phases.size() && at > phases[i].end_step; ++i) begin = phases[i].end_step;
    const auto& [end, from, to] = phases[i];
    // A phase without a step in it may be off 0 by a rounding.
    const double done = end - begin > 1e-9 ? (at - begin) / (end - begin) : 1;
    if (!cosine) return from + (to - from) * done;
    return to + (from - to) / 2 * (1 + std::cos(std::numbers::pi * done));
  };
}

Schedule chain_schedules(Schedule first, int64_t at, Schedule second) {
  check(at >= 0, "chain_schedules: wanted a step >= 0, got ", at);
  return [=, first = std::move(first), second = std::move(second)](int64_t step) {
    return step < at ? first(step) : second(step - at);
  };
}

Schedule multiply_schedules(Schedule a, Schedule b) {
  return [a = std::move(a), b = std::move(b)](int64_t step) { return a(step) * b(step); };
}

}  // namespace lockstep
