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
