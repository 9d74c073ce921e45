// train_resnet: trains a ResNet, data-parallel. --help tells how.
#include "evaluate.h"
#include "options.h"
#include "run.h"

#include "lockstep/train/trainer_program.h"

namespace {

constexpr const char* kProgram = "train_resnet";

int run_main(int argc, char** argv) {
  using namespace lockstep;
  train_resnet::Options options;
  if (const auto code = train_resnet::parse(argc, argv, options)) return *code;
  if (options.command == train_resnet::Command::kPredict) {
    return predict(options.prediction, kProgram);
  }
  RankWork work{.preflight = [&](int world) { train_resnet::preflight(options, world); },
                .run = [&](auto& group, auto& place) { train_resnet::run(options, group, place); },
                .own_settings = {"data-dir", "workers"},
                .path_settings = {"checkpoint", "cudnn-plans", "init-weights"}};
  if (options.command == train_resnet::Command::kEvaluate) {
    work.preflight = [&](int /*world*/) { train_resnet::preflight_evaluation(options); };
    work.run = [&](auto& group, auto& place) {
      train_resnet::evaluate_checkpoint(options, group, place);
    };
  }
  return run_ranks(kProgram, options.trainer, work);
}

}  // namespace

int main(int argc, char** argv) {
  return lockstep::program_main(kProgram, [&] { return run_main(argc, argv); });
}
