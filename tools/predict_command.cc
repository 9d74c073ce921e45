#include "lockstep/train/predict.h"

#include "command.h"

#include <memory>

namespace lockstep::tools {

Command predict_command(CLI::App& program) {
  CLI::App* app = program.add_subcommand(
      "predict", "Say what a ResNet trained on a folder of images sees in others");
  const auto flags = std::make_shared<PredictFlags>();
  add_predict_flags(*app, "lockstep predict", *flags);
  return {app, [flags] { return predict(*flags, "lockstep"); }};
}

}  // namespace lockstep::tools
