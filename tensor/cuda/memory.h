// Device memory behind tensor/memory.h.
#pragma once

#include "lockstep/tensor/memory.h"

namespace lockstep::cuda {

/// The caching allocator reuses a block at once after its tensor is gone, which is right for work
/// on the stream that used it. Who uses a tensor on another stream keeps it until that work is done
/// or the first stream waits for it.
const DeviceMemory& cuda_memory();

}  // namespace lockstep::cuda
