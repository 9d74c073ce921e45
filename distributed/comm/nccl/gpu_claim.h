// Which GPU each rank uses, so that two ranks on one are found out before NCCL is.
#pragma once

#include "lockstep/distributed/comm/store.h"

#include <chrono>
#include <string>

namespace lockstep::comm {

struct GpuClaim {
  std::string uuid;
  /// NCCL_HOSTID of this rank. Ranks that differ in it are on different machines, as far as NCCL
  /// can tell, and may share a GPU: for tests.
  std::string host_id;
};

/// Collective over the ranks that share `store`. Throws ArgumentError, on every rank, that names
/// the first two with one GPU, and CommError if a rank does not come.
void claim_gpu(Store& store, const std::string& prefix, const GpuClaim& own, int rank, int size,
               std::chrono::milliseconds timeout);

}  // namespace lockstep::comm
