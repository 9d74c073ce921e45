// The simulated device's memory: host memory that is poisoned when new and when freed.
#pragma once

#include "lockstep/tensor/memory.h"

namespace lockstep::testing {

/// A freed block is poisoned on the stream on which it was allocated, and reused by that stream
/// alone: as a GPU's caching allocator does it. Its addresses are none of the host's: who follows
/// one on the host crashes, as with a GPU's.
const DeviceMemory& sim_memory();

}  // namespace lockstep::testing
