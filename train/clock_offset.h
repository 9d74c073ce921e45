// How far this rank's steady clock is ahead of rank 0's: ranks of one host read one clock, others
// have clocks that began when their hosts were started.
#pragma once

#include "lockstep/distributed/comm/process_group.h"

#include <cstdint>

namespace lockstep {

struct ClockOffset {
  int64_t offset_ns = 0;  // this rank's clock minus rank 0's
  int64_t error_ns = 0;   // the offset is right within this
  int64_t at_ns = 0;      // when, by this rank's clock
};

/// Collective. Each rank asks rank 0 for the time, a few times; the answer that took the shortest
/// counts, and was given in the middle of that time, give or take half of it.
ClockOffset measure_clock_offset(ProcessGroup& group);

}  // namespace lockstep
