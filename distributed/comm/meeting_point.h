// Where the ranks of a job meet: the address and port of rank 0's store, or a file that tells them.
#pragma once

#include "lockstep/distributed/comm/rank_env.h"

#include <cstdint>
#include <string>

namespace lockstep {

struct MeetingPoint {
  std::string host;
  uint16_t port = 0;
  std::string file = {};  // where rank 0 writes the address; empty: host and port tell
};

/// The first of these that says something:
///   1. `init_method`, unless it is empty or env://: tcp://host:port or file:///path;
///   2. MASTER_ADDR and MASTER_PORT;
///   3. LOCKSTEP_INIT_METHOD, like 1;
///   4. for a job of Open MPI, MPICH or Slurm: this machine if all ranks are here, else the first
///   of
///      Slurm's nodes.
/// A port that nothing names comes from the job's name, and so does the port for ranks of torchrun,
/// whose agent listens on MASTER_PORT itself. Throws ArgumentError that says what to set.
MeetingPoint meeting_point(const RankEnv& rank, const Environment& env,
                           const std::string& init_method);

/// A port from 20000 to 28999, the same for the same job.
uint16_t port_of_job(const std::string& job);

}  // namespace lockstep
