// What train_resnet can be told.
#pragma once

#include "lockstep/train/data_flags.h"
#include "lockstep/train/plan_flags.h"
#include "lockstep/train/predict.h"
#include "lockstep/train/trainer_flags.h"

#include <optional>
#include <string>

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
  EvaluationOptions evaluation;  // with --eval-batch-size, --nproc and --threads of `trainer`
  PredictFlags prediction;

  std::string model = "resnet8";
  DataFlags data;
  TrainerFlags trainer;
  PlanFlags plans;
  double label_smoothing = 0;
  bool sync_bn = false;
  double layer_drop = 0;
  std::string init_weights;  // a file in torchvision's format
  bool partial = false;      // of it what fits
};

/// Fills `options`; returns the exit code when there is nothing more to do (help, a usage error).
std::optional<int> parse(int argc, const char* const* argv, Options& options);

}  // namespace lockstep::train_resnet
