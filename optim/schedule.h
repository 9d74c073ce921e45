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

/// `first` for the steps before `at`, then `second`, which counts from 0 there: warm-up, then
/// anything.
Schedule chain_schedules(Schedule first, int64_t at, Schedule second);
/// The product of both at every step.
Schedule multiply_schedules(Schedule a, Schedule b);

}  // namespace lockstep
