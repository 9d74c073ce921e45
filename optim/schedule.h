// Learning-rate schedules: functions from the step (0, 1, ...) to a factor on every group's rate.
// They remember nothing, so a resumed run needs the step alone. The unit is whatever the caller
// counts: optimizer steps, or epochs.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

namespace lockstep {

using Schedule = std::function<double(int64_t step)>;

/// Always 1.
Schedule constant_schedule();
/// gamma^(step / every), rounded down: PyTorch's StepLR. every >= 1.
Schedule step_schedule(int64_t every, double gamma = 0.1);
/// gamma^(number of milestones <= step): PyTorch's MultiStepLR. Milestones must rise.
Schedule multi_step_schedule(std::vector<int64_t> milestones, double gamma = 0.1);
/// Half a cosine from 1 at step 0 to `last` at step `steps` and after (Loshchilov and Hutter,
/// "SGDR", ICLR 2017, one period). steps >= 1.
Schedule cosine_schedule(int64_t steps, double last = 0);
/// A line from `first` at step 0 to 1 at step `steps` and after (Goyal et al., "Accurate, Large
/// Minibatch SGD", 2017). steps >= 0; with first > 0 the first step trains too.
Schedule warmup_schedule(int64_t steps, double first = 0);

/// (1 - step / steps)^power times the way from `last` to 1, plus `last`; `last` from `steps` on:
/// PyTorch's PolynomialLR (whose `last` is 0). steps >= 1, power > 0.
Schedule polynomial_schedule(int64_t steps, double power = 1, double last = 0);
/// BERT's: a line from 0 at step 0 to 1 at step `warmup`, then a line to 0 at step `steps` and
/// after (Devlin et al., 2019). 0 <= warmup < steps.
Schedule warmup_linear_schedule(int64_t warmup, int64_t steps);

struct OneCycleOptions {
  int64_t steps = 0;              // of the whole cycle, >= 1
  double pct_start = 0.3;         // the part of it in which the rate rises, from 0 to 1
  bool cosine = true;             // half cosines, else lines
  double div_factor = 25;         // 1 / the factor at the start
  double final_div_factor = 1e4;  // start / end
  /// Back to the start as fast as it rose, then down to the end; else down to the end at once.
  bool three_phases = false;
};
/// Up to 1 and down again, each group's rate being the highest: the rate of PyTorch's OneCycleLR
/// (Smith and Topin, "Super-Convergence", 2018); momentum stays. After the last step: the last
/// factor.
Schedule one_cycle_schedule(const OneCycleOptions& options);

/// `first` for the steps before `at`, then `second`, which counts from 0 there: warm-up, then
/// anything.
Schedule chain_schedules(Schedule first, int64_t at, Schedule second);
/// The product of both at every step.
Schedule multiply_schedules(Schedule a, Schedule b);

}  // namespace lockstep
