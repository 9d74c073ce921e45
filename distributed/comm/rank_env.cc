#include "lockstep/distributed/comm/rank_env.h"

#include "lockstep/base/error.h"

#include <unistd.h>

#include <charconv>
#include <cstdint>
#include <fstream>
#include <sstream>

namespace lockstep {
namespace {

constexpr const char* kRemedy =
    "start the program with `lockstep launch --nproc N -- program`, or set RANK, WORLD_SIZE, "
    "MASTER_ADDR and MASTER_PORT on every rank";

constexpr const char* kEnvironment = "environment";

struct Names {
  const char* starter;
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;  // null: it has none
};

constexpr Names kPlain = {kEnvironment, "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
constexpr Names kOpenMpi = {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
                            "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"};
constexpr Names kMpich = {"MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};
constexpr Names kSlurm = {"Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID",
                          nullptr};

// Steps from here on are no steps of srun: the batch script, an interactive shell and their like.
constexpr int64_t kSlurmFirstSpecialStep = 0xfffffff0;

int number_in(const Environment& env, const char* name, int least, int most, const char* meaning) {
  const auto text = env(name);
  check(text.has_value(), "rendezvous: ", name, " is not set; ", kRemedy);
  int value = 0;
  const char* end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, value);
  check(error == std::errc() && stop == end && value >= least && value <= most,
        "rendezvous: ", name, " must be ", meaning, ", got '", *text, "'; ", kRemedy);
  return value;
}

RankEnv read(const Environment& env, const Names& names) {
  RankEnv info;
  info.starter = names.starter;
  info.world_size = number_in(env, names.size, 1, 100'000, "a number of ranks, 1 or more");
  info.rank =
      number_in(env, names.rank, 0, 99'999, str("a number from 0 to ", names.size, " - 1").c_str());
  check(info.rank < info.world_size, "rendezvous: ", names.rank, " is ", info.rank, " but ",
        names.size, " is ", info.world_size, ": ranks go from 0 to ", info.world_size - 1, "; ",
        kRemedy);
  info.local_rank = info.rank;
  if (env(names.local_rank)) {
    info.local_rank = number_in(env, names.local_rank, 0, info.rank,
                                str("a number from 0 to ", names.rank).c_str());
  }
  if (names.local_size != nullptr && env(names.local_size)) {
    info.local_size = number_in(env, names.local_size, 1, info.world_size,
                                str("a number from 1 to ", names.size).c_str());
  }
  return info;
}

bool in_step_of_srun(const Environment& env) {
  if (!env("SLURM_PROCID") || !env("SLURM_STEP_NUM_TASKS")) return false;
  int64_t step = -1;
  const std::string text = env("SLURM_STEP_ID").value_or("");
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), step);
  return error == std::errc() && stop == text.data() + text.size() && step >= 0 &&
         step < kSlurmFirstSpecialStep;
}

/// The parent of a process, its program's name, and when it started; 0 as the parent if it has
/// gone.
struct Ancestor {
  pid_t parent = 0;
  std::string name, start;
};

Ancestor ancestor(pid_t pid) {
  std::ifstream in(str("/proc/", pid, "/stat"));
  std::ostringstream all;
  all << in.rdbuf();
  const std::string text = all.str();
  const size_t open = text.find('('), close = text.rfind(')');
  if (open == text.npos || close == text.npos) return {};
  Ancestor result{.parent = 0, .name = text.substr(open + 1, close - open - 1), .start = ""};
  std::istringstream fields(text.substr(close + 1));
  std::string field;
  for (int i = 3; i <= 22 && fields >> field; ++i) {  // numbered as in proc(5)
    if (i == 4) result.parent = static_cast<pid_t>(std::atoi(field.c_str()));
    if (i == 22) result.start = field;
  }
  return result;
}

/// MPICH tells its ranks no name of the job, but those of one machine have an ancestor in common;
/// each machine has another, so that a job on several is left without a name.
std::string job_of_hydra(const RankEnv& rank) {
  if (rank.local_size != rank.world_size) return "";
  for (pid_t pid = ::getppid(); pid > 1;) {
    const Ancestor a = ancestor(pid);
    if (a.name == "hydra_pmi_proxy") return str("hydra/", pid, "/", a.start);
    pid = a.parent;
  }
  return "";
}

std::optional<RankEnv> told_by_launcher(const Environment& env) {
  const auto text = [&](const char* name) { return env(name).value_or(""); };
  if (env("RANK") || env("WORLD_SIZE")) {
    RankEnv info = read(env, kPlain);
    if (env("TORCHELASTIC_RUN_ID")) {
      info.job = str("torchrun/", text("TORCHELASTIC_RUN_ID"), "/", text("MASTER_ADDR"), "/",
                     text("MASTER_PORT"));
    }
    return info;
  }
  std::optional<RankEnv> info;
  const bool step = in_step_of_srun(env);
  if (env(kOpenMpi.rank) && env(kOpenMpi.size)) {
    info = read(env, kOpenMpi);
    const std::string space = text("PMIX_NAMESPACE"),
                      key = text("OMPI_MCA_orte_precondition_transports");
    if (!space.empty() || !key.empty()) info->job = str("openmpi/", space, "/", key);
  } else if (env(kMpich.rank) && env(kMpich.size) && (env(kMpich.local_rank) || !step)) {
    // srun --mpi=pmi2 sets these, too, but not the local rank.
    info = read(env, kMpich);
    info->job = job_of_hydra(*info);
  } else if (step) {
    info = read(env, kSlurm);
    if (text("SLURM_STEP_NUM_NODES") == "1") info->local_size = info->world_size;
    info->job = str("slurm/", text("SLURM_CLUSTER_NAME"), "/", text("SLURM_JOB_ID"), ".",
                    text("SLURM_STEP_ID"));
    info->first_host = first_host_of(text("SLURM_STEP_NODELIST"));
  }
  return info;
}

}  // namespace

bool master_port_is_taken_by_torchrun(const Environment& env) {
  return env("TORCHELASTIC_USE_AGENT_STORE").value_or("") == "True";
}

std::string first_host_of(const std::string& node_list) {
  std::string host;
  for (size_t i = 0; i < node_list.size() && node_list[i] != ',';) {
    if (node_list[i] != '[') {
      host += node_list[i++];
      continue;
    }
    const size_t close = node_list.find(']', i);
    if (close == node_list.npos) return "";
    host += node_list.substr(i + 1, node_list.find_first_of(",-]", i) - i - 1);
    i = close + 1;
  }
  return host;
}

std::optional<RankEnv> rank_from_env(const Environment& env) {
  auto info = told_by_launcher(env);
  const bool alone = info && info->starter != kPlain.starter && info->world_size == 1;
  return alone ? std::nullopt : info;
}

bool has_launcher(const Environment& env) { return told_by_launcher(env).has_value(); }

}  // namespace lockstep
