// wrap_backend: the CPU's tables with every kernel replaced by one that enqueues it on the current
// simulated stream. New ops and families need nothing here, except an argument type that holds
// tensors in a new way: a Captured of its own.
#pragma once

#include "lockstep/tensor/backend.h"

namespace lockstep::testing {

Backend wrap_backend(const char* name, const DeviceMemory& memory, const DeviceStreams& streams);

}  // namespace lockstep::testing
