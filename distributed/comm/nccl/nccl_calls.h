// An operation of a ProcessGroup as calls of NCCL.
#pragma once

#include "lockstep/distributed/comm/nccl/nccl_api.h"
#include "lockstep/distributed/comm/op.h"

namespace lockstep::comm {

/// Makes the call, or the calls as one group. `size`: ranks of the communicator. A barrier is an
/// all-reduce of `op.out`.
NcclResult call_nccl(NcclApi& api, const Op& op, int size, NcclComm& comm, Stream& stream);

}  // namespace lockstep::comm
