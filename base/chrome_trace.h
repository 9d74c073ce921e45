// A timeline's kept steps as a Chrome trace: JSON that ui.perfetto.dev and chrome://tracing show,
// and that holds what PyTorch's trace tools look for (`distributedInfo.rank`).
#pragma once

#include "lockstep/base/timeline.h"

#include <iosfwd>
#include <span>

namespace lockstep {

struct ChromeTraceOptions {
  int rank = 0;
  int world_size = 1;
};

/// The process id is the rank, so that the files of all ranks can be put together. Times are
/// steady_clock microseconds: comparable between the ranks of one host. Each recording thread is a
/// lane; transfers get lanes of their own, as many as it takes for no two slices of a lane to
/// overlap, because viewers draw overlapping slices wrongly. A slice's `args` hold its step, and
/// `bucket` and `bytes` where they are known. That a bucket became ready and was launched are
/// instants on the computing thread's lane.
void write_chrome_trace(std::ostream& out, std::span<const StepEvents> steps,
                        ChromeTraceOptions options);

}  // namespace lockstep
