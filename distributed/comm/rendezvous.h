// How the ranks of a job find each other: the env:// convention that launchers follow (lockstep
// launch, torchrun, Slurm scripts).
#pragma once

#include "lockstep/distributed/comm/store.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace lockstep {

/// What a launcher has told this process.
struct RankInfo {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;  // among the ranks of this machine
  /// An address of rank 0's machine; a loopback address for a job on one machine.
  std::string master_addr = {};
  uint16_t master_port = 0;
};

/// From RANK, WORLD_SIZE, LOCAL_RANK (RANK if unset), MASTER_ADDR and MASTER_PORT; nothing if
/// neither RANK nor WORLD_SIZE is set, that is, without a launcher. Throws ArgumentError that names
/// the variable and the remedy.
std::optional<RankInfo> rank_from_env();

/// The job's store, once all ranks have come. Rank 0 serves it. Throws CommError that names the
/// ranks that have not come within `timeout`, and ArgumentError if two processes have the same RANK
/// or the ranks differ in WORLD_SIZE.
std::shared_ptr<Store> join_store(const RankInfo& info, const std::string& token,
                                  std::chrono::milliseconds timeout);

}  // namespace lockstep
