// What train_resnet can be told.
#pragma once

#include "lockstep/train/data_flags.h"
#include "lockstep/train/ddp_flags.h"
#include "lockstep/train/fault_flags.h"
#include "lockstep/train/group_flags.h"
#include "lockstep/train/optimizer_flags.h"
#include "lockstep/train/predict.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::train_resnet {

enum class Command { kTrain, kEvaluate, kPredict };

struct EvaluationOptions {
  std::string checkpoint;
  std::string model;  // empty: the checkpoint's
  DataFlags data;     // what is given; the rest is the checkpoint's
  bool raw_weights = false;
};

struct Options {
  Command command = Command::kTrain;
  EvaluationOptions evaluation;  // with --eval-batch-size, --nproc and --threads below
  PredictFlags prediction;

  std::string model = "resnet8";
  DataFlags data;
  int64_t epochs = 20;
  int64_t batch_size = 32;  // of each process
  int64_t eval_batch_size = 128;
  OptimizerFlags optimizer;
  double label_smoothing = 0;
  int64_t grad_accum_steps = 1;
  DdpFlags ddp;
  GroupFlags group;
  bool sync_bn = false;
  double layer_drop = 0;
  int nproc = 1;
  int threads = 0;  // 0: this machine's processors shared out
  uint64_t seed = 1;
  std::string output_dir;
  std::string resume;
  std::string init_weights;  // a file in torchvision's format
  bool partial = false;      // of it what fits
  bool overwrite = false;
  int64_t checkpoint_every = 0;
  int64_t log_interval = 50;
  int64_t check_replicas_every = 0;
  FaultFlags faults;

  std::vector<std::string> arguments;                         // of the command line
  std::vector<std::pair<std::string, std::string>> settings;  // all, for run.json
};

/// The settings that every rank must have alike: not what is each machine's own, and of paths only
/// whether they are given.
std::vector<std::pair<std::string, std::string>> shared_settings(const Options& options);

/// Fills `options`; returns the exit code when there is nothing more to do (help, a usage error).
std::optional<int> parse(int argc, const char* const* argv, Options& options);

}  // namespace lockstep::train_resnet
