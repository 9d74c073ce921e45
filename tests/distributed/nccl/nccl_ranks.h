// Ranks as threads, each with a group over a fake NCCL.
#pragma once

#include "lockstep/distributed/comm/nccl/nccl_group.h"
#include "lockstep/tests/distributed/nccl/mortal_store.h"
#include "lockstep/tests/support/fake_nccl.h"
#include "lockstep/tests/support/sim_device.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::testing {

struct NcclRanks {
  int ranks = 3;
  NcclGroupOptions group = {};
  std::function<FakeNcclOptions(int rank)> fake = {};  // null: all is well
  std::function<std::string(int rank)> host_id = {};   // null: none
  std::function<bool(int rank)> comes = [](int) { return true; };
  /// Called before the rank shows its GPU, and before it connects to the others.
  std::function<void(int rank, MortalStore&)> at_claim = {};
  std::function<void(int rank, MortalStore&)> at_init = {};
};

/// What a rank has; it may end its group before its time.
struct NcclRank {
  std::unique_ptr<ProcessGroup> group;
  MortalStore& store;
  const FakeNccl& nccl;
};

struct NcclOutcome {
  std::vector<std::string> errors;  // by rank; "" for none
  std::vector<std::string> misuses;
  std::vector<std::string> ranges;
  int live = 0;
  int max_ctas = 0;
  int registrations = 0;
};

/// Runs fn on each rank. A SimDevice must live.
NcclOutcome run_nccl(const NcclRanks& ranks, const std::function<void(NcclRank&)>& fn);

/// `n` elements of `value` on the device.
Tensor on_device(double value, int64_t n = 100);

}  // namespace lockstep::testing
