// Steps of one or more ranks as a Chrome trace: JSON that ui.perfetto.dev and chrome://tracing
// show, and that holds what PyTorch's trace tools look for (`distributedInfo`).
#pragma once

#include "lockstep/base/timeline.h"

#include <cstdint>
#include <iosfwd>
#include <span>

namespace lockstep {

struct RankTrace {
  int rank = 0;
  std::span<const StepEvents> steps;  // by one clock on all ranks
};

/// The process id is the rank. Times are microseconds since `origin_ns`. Each recording thread is a
/// lane; transfers get lanes of their own, as many as it takes for no two slices of a lane to
/// overlap, because viewers draw overlapping slices wrongly. A slice's `args` hold its step, and
/// `bucket` and `bytes` where they are known. That a bucket became ready and was launched are
/// instants on the computing thread's lane.
void write_chrome_trace(std::ostream& out, std::span<const RankTrace> ranks, int world_size,
                        int64_t origin_ns = 0);

}  // namespace lockstep
