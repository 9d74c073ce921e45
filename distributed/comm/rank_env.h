// Who started this process, and as which rank: read from the variables that launchers set.
#pragma once

#include "lockstep/distributed/comm/environment.h"

#include <optional>
#include <string>

namespace lockstep {

/// What a launcher has told this process.
struct RankEnv {
  int rank = 0;
  int world_size = 1;
  int local_rank = 0;  // among the ranks of this machine
  int local_size = 0;  // how many those are; 0: not told
  /// "environment" (RANK and WORLD_SIZE: lockstep launch, torchrun, by hand), "Open MPI", "MPICH"
  /// or "Slurm".
  std::string starter;
  /// The launcher's name of this job, the same on all its ranks and on no other job's; empty: none.
  std::string job;
  /// The machine of rank 0, where the launcher tells; empty: it does not.
  std::string first_host;
};

/// The first of these that is there; nothing if none is:
///   RANK, WORLD_SIZE, LOCAL_RANK (RANK if unset), LOCAL_WORLD_SIZE;
///   Open MPI's OMPI_COMM_WORLD_RANK, _SIZE, _LOCAL_RANK, _LOCAL_SIZE;
///   MPICH's PMI_RANK, PMI_SIZE, MPI_LOCALRANKID, MPI_LOCALNRANKS;
///   Slurm's SLURM_PROCID, SLURM_STEP_NUM_TASKS, SLURM_LOCALID, in a step of srun only: a batch
///   script and an allocation's shell have some of them, too, and are no ranks.
/// One process of mpirun or srun is a process without a launcher. Throws ArgumentError that names
/// the variable and the remedy.
std::optional<RankEnv> rank_from_env(const Environment& env = process_environment());

/// Whether any of these is there: false for a process without a launcher, true for the one process
/// of mpirun or srun.
bool has_launcher(const Environment& env = process_environment());

/// Whether torchrun's own store listens on MASTER_PORT, so that ours cannot.
bool master_port_is_taken_by_torchrun(const Environment& env);

/// The first name of a Slurm node list: "node[03-05,9]-ib,other" -> "node03-ib".
std::string first_host_of(const std::string& node_list);

}  // namespace lockstep
