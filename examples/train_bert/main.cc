// train_bert: trains BERT, data-parallel, and uses it. --help tells how.
#include "finetune.h"
#include "options.h"
#include "predict.h"
#include "pretrain.h"

#include "lockstep/train/trainer_program.h"

namespace {

constexpr const char* kProgram = "train_bert";

int run_main(int argc, char** argv) {
  using namespace lockstep;
  train_bert::Options options;
  if (const auto code = train_bert::parse(argc, argv, options)) return *code;
  RankWork work{.preflight = {},
                .run = {},
                .path_settings = {"config-name", "cudnn-plans", "init-weights", "train-file",
                                  "validation-file", "vocab"}};
  if (options.command == train_bert::Command::kPredict) {
    train_bert::predict(options.predict);
    return 0;
  }
  if (options.command == train_bert::Command::kEmbed) {
    train_bert::embed(options.embed);
    return 0;
  }
  if (options.command == train_bert::Command::kFinetune) {
    const train_bert::FinetuneOptions& finetune = options.finetune;
    work.preflight = [&](int world) { train_bert::preflight_finetuning(finetune, world); };
    work.run = [&](auto& group, auto& place) { train_bert::finetune(finetune, group, place); };
    return run_ranks(kProgram, finetune.trainer, work);
  }
  train_bert::Pretraining pretraining(options.pretrain);
  work.preflight = [&](int world) { pretraining.preflight(world); };
  work.run = [&](auto& group, auto& place) { pretraining.run(group, place); };
  return run_ranks(kProgram, options.pretrain.trainer, work);
}

}  // namespace

int main(int argc, char** argv) {
  return lockstep::program_main(kProgram, [&] { return run_main(argc, argv); });
}
