#include "lockstep/distributed/comm/rank_env.h"

#include "lockstep/base/error.h"
#include "lockstep/tests/distributed/environment_of.h"

#include <doctest/doctest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace lockstep {
namespace {

using testing::environment_of;
using testing::Variables;

std::optional<RankEnv> read(const Variables& variables) {
  return rank_from_env(environment_of(variables));
}

std::string message_of(const Variables& variables) {
  try {
    read(variables);
  } catch (const ArgumentError& e) {
    return e.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

Variables with(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}

// What the launchers set, as seen with Open MPI 4.1, MPICH 4.0 and Slurm 22.05.
const Variables kPlain = {{"RANK", "1"}, {"WORLD_SIZE", "3"}, {"LOCAL_RANK", "0"}};
const Variables kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "3"},
                            {"OMPI_COMM_WORLD_SIZE", "4"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                            {"PMIX_NAMESPACE", "1931083777"},
                            {"OMPI_MCA_orte_precondition_transports", "30754c0a-9b2f"}};
const Variables kMpich = {
    {"PMI_RANK", "2"}, {"PMI_SIZE", "3"}, {"MPI_LOCALRANKID", "2"}, {"MPI_LOCALNRANKS", "3"}};
// A batch script's, and a shell's that salloc has started.
const Variables kSlurmAllocation = {{"SLURM_JOB_ID", "7"},         {"SLURM_CLUSTER_NAME", "c"},
                                    {"SLURM_NTASKS", "4"},         {"SLURM_NPROCS", "4"},
                                    {"SLURM_JOB_NODELIST", "a,b"}, {"SLURM_NNODES", "2"}};
const Variables kSlurmBatch =
    with(kSlurmAllocation, {{"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}, {"SLURM_NODEID", "0"}});
const Variables kSlurmStep = with(kSlurmBatch, {{"SLURM_PROCID", "3"},
                                                {"SLURM_LOCALID", "1"},
                                                {"SLURM_STEP_ID", "0"},
                                                {"SLURM_STEP_NUM_TASKS", "4"},
                                                {"SLURM_STEP_NUM_NODES", "2"},
                                                {"SLURM_STEP_NODELIST", "n[07-08]"}});

void expect(const std::optional<RankEnv>& info, const char* starter, int rank, int size,
            int local_rank, int local_size) {
  REQUIRE(info.has_value());
  CHECK(info->starter == starter);
  CHECK(info->rank == rank);
  CHECK(info->world_size == size);
  CHECK(info->local_rank == local_rank);
  CHECK(info->local_size == local_size);
}

TEST_CASE("rank_from_env: RANK and WORLD_SIZE") {
  CHECK_FALSE(read({}).has_value());
  CHECK_FALSE(read({{"RANK", ""}, {"WORLD_SIZE", ""}}).has_value());
  expect(read(kPlain), "environment", 1, 3, 0, 0);
  expect(read(with(kPlain, {{"LOCAL_WORLD_SIZE", "3"}})), "environment", 1, 3, 0, 3);
  expect(read({{"RANK", "1"}, {"WORLD_SIZE", "3"}}), "environment", 1, 3, 1, 0);
  // One rank by hand is a rank all the same.
  expect(read({{"RANK", "0"}, {"WORLD_SIZE", "1"}}), "environment", 0, 1, 0, 0);
  CHECK(read(kPlain)->job.empty());
}

TEST_CASE("rank_from_env: Open MPI") {
  const auto info = read(kOpenMpi);
  expect(info, "Open MPI", 3, 4, 1, 2);
  CHECK(info->job == "openmpi/1931083777/30754c0a-9b2f");
  CHECK(read(with(kOpenMpi, {{"PMIX_NAMESPACE", "x"}}))->job != info->job);
  Variables nameless = kOpenMpi;
  nameless.erase("PMIX_NAMESPACE");
  nameless.erase("OMPI_MCA_orte_precondition_transports");
  CHECK(read(nameless)->job.empty());
}

TEST_CASE("rank_from_env: MPICH") {
  expect(read(kMpich), "MPICH", 2, 3, 2, 3);
  Variables bare = kMpich;
  bare.erase("MPI_LOCALRANKID");
  bare.erase("MPI_LOCALNRANKS");
  expect(read(bare), "MPICH", 2, 3, 2, 0);
}

TEST_CASE("rank_from_env: a job of MPICH has the name of its proxy, and none on several machines") {
  char before[16];
  ::prctl(PR_GET_NAME, before);
  ::prctl(PR_SET_NAME, "hydra_pmi_proxy");
  const pid_t rank = ::fork();
  if (rank == 0) {
    const std::string proxy = str("hydra/", ::getppid(), "/");
    const bool named = read(kMpich)->job.starts_with(proxy);
    const bool apart = read(with(kMpich, {{"MPI_LOCALNRANKS", "2"}}))->job.empty();
    ::_exit((named ? 0 : 1) + (apart ? 0 : 2));
  }
  int status = -1;
  const pid_t ended = ::waitpid(rank, &status, 0);
  ::prctl(PR_SET_NAME, before);
  REQUIRE(ended == rank);
  CHECK(status == 0);
}

TEST_CASE("rank_from_env: Slurm") {
  const auto info = read(kSlurmStep);
  expect(info, "Slurm", 3, 4, 1, 0);
  CHECK(info->job == "slurm/c/7.0");
  CHECK(info->first_host == "n07");
  CHECK(read(with(kSlurmStep, {{"SLURM_STEP_ID", "1"}}))->job != info->job);
  expect(read(with(kSlurmStep, {{"SLURM_STEP_NUM_NODES", "1"}})), "Slurm", 3, 4, 1, 4);
  // A step may be smaller than its allocation.
  expect(read(with(kSlurmStep, {{"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_PROCID", "1"}})), "Slurm", 1,
         2, 1, 0);
}

TEST_CASE("rank_from_env: an allocation's shell and a batch script of Slurm are no ranks") {
  CHECK_FALSE(read(kSlurmAllocation).has_value());
  CHECK_FALSE(read(kSlurmBatch).has_value());
  // salloc's interactive step, where it is used; and what is no number.
  CHECK_FALSE(read(with(kSlurmStep, {{"SLURM_STEP_ID", "4294967290"}})).has_value());
  CHECK_FALSE(read(with(kSlurmStep, {{"SLURM_STEP_ID", ""}})).has_value());
  CHECK_FALSE(read(with(kSlurmStep, {{"SLURM_STEP_ID", "0x"}})).has_value());
}

TEST_CASE("rank_from_env: one process of mpirun or srun is a process alone") {
  CHECK_FALSE(read({{"PMI_RANK", "0"}, {"PMI_SIZE", "1"}}).has_value());
  CHECK_FALSE(read({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "1"}}).has_value());
  CHECK_FALSE(
      read(with(kSlurmBatch, {{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}})).has_value());
}

TEST_CASE("rank_from_env: the nearest launcher counts") {
  Variables all = with(with(kSlurmStep, kMpich), kOpenMpi);
  CHECK(read(with(all, kPlain))->starter == "environment");
  CHECK(read(all)->starter == "Open MPI");  // mpirun within a step of srun
  CHECK(read(with(kSlurmStep, kMpich))->starter == "MPICH");
  // srun --mpi=pmi2 sets these two itself; the local rank is Slurm's.
  const auto pmi2 = read(with(kSlurmStep, {{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}}));
  expect(pmi2, "Slurm", 3, 4, 1, 0);
}

TEST_CASE("rank_from_env: torchrun") {
  const Variables torchrun = with(kPlain, {{"TORCHELASTIC_RUN_ID", "none"},
                                           {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                           {"MASTER_ADDR", "host0"},
                                           {"MASTER_PORT", "29500"}});
  CHECK(read(torchrun)->job == "torchrun/none/host0/29500");
  CHECK(master_port_is_taken_by_torchrun(environment_of(torchrun)));
  CHECK_FALSE(master_port_is_taken_by_torchrun(environment_of(kPlain)));
}

TEST_CASE("rank_from_env: missing and invalid values are named with the remedy") {
  for (const auto& [variables, names] :
       std::initializer_list<std::pair<Variables, std::vector<std::string>>>{
           {kPlain, {"RANK", "WORLD_SIZE", "LOCAL_RANK"}},
           {with(kPlain, {{"LOCAL_WORLD_SIZE", "1"}}), {"LOCAL_WORLD_SIZE"}},
           {kOpenMpi, {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"}},
           {kMpich, {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"}},
           {kSlurmStep, {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"}}}) {
    for (const std::string& name : names) {
      for (const char* bad : {"-1", "x", "1x", " 1", "99999999999999999999", "100001"}) {
        CAPTURE(name);
        CAPTURE(bad);
        const std::string message = message_of(with(variables, {{name, bad}}));
        CHECK(contains(message, name + " must be"));
        CHECK(contains(message, "lockstep launch --nproc N"));
      }
    }
  }
  CHECK(contains(message_of({{"RANK", "1"}}), "WORLD_SIZE is not set"));
  CHECK(contains(message_of({{"WORLD_SIZE", "2"}}), "RANK is not set"));
  CHECK(contains(message_of({{"RANK", "0"}, {"WORLD_SIZE", "0"}}), "WORLD_SIZE must be"));
  CHECK(contains(message_of({{"RANK", "3"}, {"WORLD_SIZE", "3"}}),
                 "RANK is 3 but WORLD_SIZE is 3: ranks go from 0 to 2"));
}

TEST_CASE("first_host_of: Slurm's node lists") {
  CHECK(first_host_of("vm") == "vm");
  CHECK(first_host_of("a,b") == "a");
  CHECK(first_host_of("node[003-006,9]") == "node003");
  CHECK(first_host_of("node[9,3]-ib,x") == "node9-ib");
  CHECK(first_host_of("rack[1-2]n[01-04]") == "rack1n01");
  CHECK(first_host_of("") == "");
  CHECK(first_host_of("broken[1-2") == "");
}

}  // namespace
}  // namespace lockstep
