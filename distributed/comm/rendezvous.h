// How the ranks of a job find each other, once they know where to meet.
#pragma once

#include "lockstep/distributed/comm/store.h"

#include <cstdint>
#include <memory>
#include <string>

namespace lockstep {

struct RankInfo {
  int rank = 0;
  int world_size = 1;
  /// An address of rank 0's machine, where rank 0 listens and nowhere else; a loopback address for
  /// a job on one machine.
  std::string master_addr = {};
  uint16_t master_port = 0;
};

/// The job's store, once all ranks have come. Rank 0 serves it. Throws CommError that names the
/// ranks that have not come within `timeout`, and ArgumentError if two processes have the same RANK
/// or the ranks differ in WORLD_SIZE.
std::shared_ptr<Store> join_store(const RankInfo& info, const std::string& token,
                                  std::chrono::milliseconds timeout);

/// The same by a file in a folder that all ranks see: rank 0 listens on its `info.master_addr` and
/// a free port, writes both and a new token to `path` (mode 0600, at once), and removes the file
/// when all have come. Where the store is comes back in `info` on all ranks. A file that an earlier
/// job has left is passed over, since nobody answers there or the token is another; so is one with
/// another name of the job, if both have one. Throws CommError if another job is meeting at this
/// file.
std::shared_ptr<Store> join_store_by_file(RankInfo& info, const std::string& path,
                                          const std::string& job,
                                          std::chrono::milliseconds timeout);

}  // namespace lockstep
