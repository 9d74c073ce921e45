// NCCL itself behind nccl_api.h.
#pragma once

#include "lockstep/distributed/comm/nccl/nccl_api.h"

namespace lockstep::comm {

/// Loads libnccl.so.2 at the first call, so that programs start where there is none. Throws
/// UnsupportedError with the remedy if this program was built without CUDA, or if the library is
/// missing or too old.
NcclApi& nccl_library();

}  // namespace lockstep::comm
