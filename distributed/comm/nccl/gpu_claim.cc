#include "lockstep/distributed/comm/nccl/gpu_claim.h"

#include "lockstep/base/error.h"

#include <map>

namespace lockstep::comm {

void claim_gpu(Store& store, const std::string& prefix, const GpuClaim& own, int rank, int size,
               std::chrono::milliseconds timeout) {
  const auto key = [&](int r) { return str(prefix, "/gpu/", r); };
  store.set(key(rank), own.uuid + '\n' + own.host_id);
  std::map<std::string, int> taken;
  for (int r = 0; r < size; ++r) {
    const std::string claim = store.get(key(r), timeout);
    const auto [first, is_new] = taken.emplace(claim, r);
    check(
        is_new, "make_nccl_group: ranks ", first->second, " and ", r, " use the same GPU, ",
        claim.substr(0, claim.find('\n')),
        ", but NCCL wants one for each: start no more ranks on a machine than it has GPUs, and let "
        "CUDA_VISIBLE_DEVICES of each rank show all of them or its own");
  }
}

}  // namespace lockstep::comm
