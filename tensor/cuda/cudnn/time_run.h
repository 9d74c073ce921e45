// How long something takes on the GPU. Compiled only with --config=cuda.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

namespace lockstep::cuda {

/// Whether plans are to be timed now: they are wanted to (tensor/plan_book.h), and the current
/// stream runs what it is given. One that is being captured does not.
bool may_time_plans();

/// What enqueues a run on the current stream.
using Run = std::function<void()>;

/// Nanoseconds of one run of what `prepare` gives; waits for the current stream. Nothing where a
/// library refuses or the memory does not suffice. An error of the device itself is thrown.
std::optional<int64_t> time_run(const std::function<Run()>& prepare);

}  // namespace lockstep::cuda
