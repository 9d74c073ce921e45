// The checks that every backend must pass, called on every rank of a group.
#pragma once

#include "lockstep/distributed/comm/process_group.h"

namespace lockstep::testing {

/// Every collective with every dtype, against values computed here; throws Error on the first
/// difference.
void check_collectives(ProcessGroup& group);
/// send and recv around a ring, and split into two groups.
void check_ring_and_split(ProcessGroup& group);

/// The same with tensors on `device`.
void check_collectives_on(Device device, ProcessGroup& group);
void check_ring_and_split_on(Device device, ProcessGroup& group);

}  // namespace lockstep::testing
