// Ranks as threads, over the in-process group, over Gloo, or over a fake NCCL on simulated streams,
// each owning its group: for tests that hold for all of them.
#pragma once

#include "lockstep/distributed/comm/process_group.h"

#include <functional>
#include <string>
#include <vector>

namespace lockstep::testing {

using GroupPtr = std::unique_ptr<ProcessGroup>;

/// Those of host tensors, and how to name them in CAPTURE.
inline const std::vector<std::string> kHostBackends = {"threads", "gloo"};
/// All. With "nccl" the group also takes tensors of a simulated device, behind Device::cuda().
inline const std::vector<std::string> kBackends = {"threads", "gloo", "nccl"};
/// Where the tensors of a backend's tests are.
inline Device device_of(const std::string& backend) {
  return backend == "nccl" ? Device::cuda() : Device::cpu();
}

/// Runs fn(group) on n threads; returns each rank's error, "" for none. The threads of the
/// in-process group and the simulated streams sleep at random before some operations. `timeout` is
/// that of one operation. Misuse of NCCL is an error of rank 0.
std::vector<std::string> run_ranks(const std::string& backend, int n,
                                   const std::function<void(GroupPtr)>& fn,
                                   std::chrono::milliseconds timeout = std::chrono::seconds(60));

/// As run_ranks, where no rank may fail: throws the first error.
void run_all_well(const std::string& backend, int n, const std::function<void(GroupPtr)>& fn);

}  // namespace lockstep::testing
