// The command-line flags of a training run, which all trainers have.
#pragma once

#include "lockstep/train/amp_flag.h"
#include "lockstep/train/ddp_flags.h"
#include "lockstep/train/device_flag.h"
#include "lockstep/train/fault_flags.h"
#include "lockstep/train/group_flags.h"
#include "lockstep/train/optimizer_flags.h"
#include "lockstep/train/run_dir.h"
#include "lockstep/train/step_agreement.h"
#include "lockstep/train/uneven_flag.h"

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace CLI {
class App;
}

namespace lockstep {

/// A trainer may set other defaults before it adds them to its command line.
struct TrainerFlags {
  int64_t epochs = 20;
  int64_t max_steps = 0;    // above 0: instead of epochs
  int64_t batch_size = 32;  // of each process
  int64_t eval_batch_size = 128;
  int64_t grad_accum_steps = 1;
  UnevenFlag uneven;
  uint64_t seed = 1;
  OptimizerFlags optimizer;
  AmpFlag amp;
  DeviceFlag device;
  bool cuda_graph = false;
  DdpFlags ddp;
  GroupFlags group;
  int nproc = 1;
  int max_restarts = 0;  // of what --nproc starts
  double grace = 30;     // seconds to save in, after SIGTERM or SIGUSR1
  int threads = 0;       // 0: this machine's processors shared out

  std::string output_dir;
  std::string resume;
  bool overwrite = false;
  int64_t checkpoint_every = 0;
  double checkpoint_minutes = 0;
  double agree_seconds = kAgreeSeconds;
  int64_t keep_checkpoints = 0;
  int64_t evaluate_every = 0;
  int64_t log_interval = 50;
  int64_t check_replicas_every = 0;
  std::string on_nonfinite = "error";
  FaultFlags faults;

  std::vector<std::string> arguments;                         // of the command line
  std::vector<std::pair<std::string, std::string>> settings;  // all, for run.json
};

/// How a trainer's help calls things.
struct TrainerWords {
  std::string samples = "Images";
  std::string epochs = "--epochs";  // the option with its other names
  std::string seeded = "the weights, the order of the data, the augmentation";
};

/// --epochs, --max-steps, batch sizes, --uneven, --grad-accum-steps, --amp, --device,
/// --tf32, --cuda-graph.
void add_loop_flags(CLI::App& app, TrainerFlags& flags, const TrainerWords& words);
void add_eval_batch_size(CLI::App& app, TrainerFlags& flags, const TrainerWords& words);
void add_seed_flag(CLI::App& app, TrainerFlags& flags, const TrainerWords& words);
/// --nproc, --threads.
void add_process_flags(CLI::App& app, TrainerFlags& flags);
/// Where the run's files go, and how often it tells, saves and checks.
void add_run_flags(CLI::App& app, TrainerFlags& flags);

inline constexpr const char* kGraphOfOneProcess =
    "--cuda-graph captures the steps of one process: what several say to each other is watched "
    "operation by operation, by the host; leave it out";

/// After parsing: what is wrong with the flags together, for a usage error; empty: nothing.
std::string wrong_trainer_flags(const CLI::App& app, const TrainerFlags& flags);

/// The settings that every rank must have alike: all but `own`, which are each machine's, and of
/// `paths` only whether they are given. The flags of this file are known.
std::vector<std::pair<std::string, std::string>> shared_settings(const TrainerFlags& flags,
                                                                 std::set<std::string> own,
                                                                 std::set<std::string> paths);

/// What a checkpoint must have in common with this run. Rates, epochs and intervals may change on
/// purpose; these would give a run that is neither the old one nor a new one.
std::vector<RunTrait> trainer_traits(const TrainerFlags& flags, int world);

RunDirOptions run_dir_options(const TrainerFlags& flags);

}  // namespace lockstep
