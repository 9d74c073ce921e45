// The simulated device's memory: host memory that is poisoned when new and when freed.
#pragma once

#include "lockstep/tensor/memory.h"

namespace lockstep::testing {

/// A freed block is poisoned on the stream on which it was allocated, and reused by that stream
/// alone: as a GPU's caching allocator does it.
const DeviceMemory& sim_memory();

}  // namespace lockstep::testing
