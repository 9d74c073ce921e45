#include "options.h"

#include "lockstep/base/str.h"
#include "lockstep/base/version.h"
#include "lockstep/models/resnet.h"
#include "lockstep/train/command_line.h"

#include <CLI/CLI.hpp>

namespace lockstep::train_resnet {
namespace {

constexpr const char* kFooter = R"(
Examples:
  train_resnet --nproc 2                                  digits, two processes on this machine
  train_resnet --nproc 2 --output-dir out --checkpoint-every 50
  train_resnet --nproc 2 --output-dir out --resume auto   go on where it stopped
  train_resnet --dataset fashion-mnist --epochs 4 --batch-size 64 --nproc 2
  train_resnet --dataset folder --data-dir photos --model resnet18 --init-weights r18.safetensors --partial
                                                          fine-tune torchvision's weights on other classes
  train_resnet --dataset synthetic --model resnet18 --ddp-mode naive --output-dir out
  mpirun -n 2 train_resnet                                the same by Open MPI, MPICH, srun or torchrun
  RANK=0 WORLD_SIZE=2 MASTER_ADDR=host0 MASTER_PORT=29500 train_resnet
                                                          one rank of a job on several machines
  train_resnet evaluate out/best.safetensors --nproc 2    the test images once more

Exit codes: 0 trained, 1 failed, 2 wrong usage, 128 + N ended by signal N; SIGTERM and SIGUSR1 (143, 138)
let a training save first.)";

const TrainerWords kWords;

void add_training_flags(CLI::App& app, Options& o) {
  app.add_option("--model", o.model,
                 "resnet8, 20, 32, 56 (for CIFAR-sized images), 18, 34, 50, 101, 152")
      ->check(CLI::IsMember(resnet_names()));
  add_data_flags(app, o.data);

  add_loop_flags(app, o.trainer, kWords);
  add_plan_flags(app, o.plans);
  add_optimizer_flags(app, o.trainer.optimizer);
  app.add_option("--label-smoothing", o.label_smoothing, "Label smoothing")
      ->check(within(0, 1, "a value from 0 to 1"));
  app.add_option("--layer-drop", o.layer_drop,
                 "Probability of skipping a residual block in a step, the same blocks on all ranks")
      ->check(within(0, 0.99, "a probability from 0 to 0.99"));
  add_seed_flag(app, o.trainer, kWords);

  add_process_flags(app, o.trainer);
  add_ddp_flags(app, o.trainer.ddp);
  add_group_flags(app, o.trainer.group);
  app.add_flag("--sync-bn", o.sync_bn,
               "Batch normalisation by the statistics of all processes' samples");
  auto* init_weights = app.add_option(
      "--init-weights", o.init_weights,
      "Start from a safetensors file in torchvision's format; a resumed run has its own");
  init_weights->check(not_empty());
  app.add_flag("--partial", o.partial,
               "Take from --init-weights what fits, such as all but the classifier")
      ->needs(init_weights);
  add_run_flags(app, o.trainer);
  add_config_option(app);
}

CLI::App* add_evaluate(CLI::App& app, Options& o) {
  EvaluationOptions& evaluation = o.evaluation;
  CLI::App* command =
      app.add_subcommand("evaluate", "Accuracy and loss of a trained model on the test images");
  command->footer(
      R"(What is not given is as in the checkpoint's run, so that the numbers are those that training printed.
Examples:
  train_resnet evaluate runs/demo/best.safetensors
  train_resnet evaluate runs/pets/best.safetensors --data-dir pets --nproc 2
  train_resnet evaluate resnet18.safetensors --model resnet18 --dataset folder --data-dir imagenet)");
  command
      ->add_option("checkpoint", evaluation.checkpoint,
                   "A checkpoint of train_resnet, or weights in torchvision's format")
      ->required();
  command
      ->add_option("--model", evaluation.model,
                   "What the weights are of; not given: what the checkpoint says")
      ->check(CLI::IsMember(resnet_names()));
  evaluation.data.dataset.clear();
  add_data_flags(*command, evaluation.data);
  for (const char* name : {"--augment", "--least-crop-area", "--color-jitter"}) {
    command->remove_option(command->get_option(name));  // they are about training images
  }
  command->add_flag("--raw-weights", evaluation.raw_weights,
                    "The weights themselves, where a run with --ema-decay has averages of them");
  add_eval_batch_size(*command, o.trainer, kWords);
  add_device_flag(*command, o.trainer.device);
  add_process_flags(*command, o.trainer);
  return command;
}

/// What is wrong with the flags of a training together; empty: nothing.
std::string wrong_flags(const CLI::App& app, const Options& o) {
  const std::string wrong = wrong_trainer_flags(app, o.trainer);
  if (!wrong.empty()) return wrong;
  const std::string& resume = o.trainer.resume;
  if (!o.init_weights.empty() && !resume.empty() && resume != "auto") {
    return "--resume CHECKPOINT brings its own weights; it takes no --init-weights";
  }
  if (o.layer_drop > 0 && o.trainer.ddp.static_graph) {
    return "--layer-drop leaves out other blocks in each step; it takes no --static-graph";
  }
  if (o.layer_drop > 0 && has_caps(o.trainer.ddp)) {
    return "--layer-drop gives each block a bucket; it takes no bucket caps and no --bucket-plan";
  }
  if (o.trainer.cuda_graph && (o.layer_drop > 0 || o.sync_bn)) {
    return "--layer-drop and --sync-bn decide or exchange on the host in each step; they take no "
           "--cuda-graph";
  }
  if (o.sync_bn && o.trainer.uneven.uneven == "join") {
    return "--sync-bn wants samples on each process; it takes no --uneven join";
  }
  const Device device = named_device(o.trainer.device);
  for (const std::string& wrong_there :
       {wrong_plan_flags(o.plans, device), wrong_group_flags(o.trainer.group, device)}) {
    if (!wrong_there.empty()) return wrong_there;
  }
  return wrong_data_flags(o.data);
}

/// A training's flag before a command would mean nothing.
std::string stray_flag(const CLI::App& app, const CLI::App& command) {
  for (const CLI::Option* option : app.get_options()) {
    if (option->count() == 0) continue;
    return str(option->get_name(), " is for training; ", command.get_name(),
               " takes its options after its name");
  }
  return "";
}

}  // namespace

std::optional<int> parse(int argc, const char* const* argv, Options& o) {
  CLI::App app{"Trains a ResNet on images, data-parallel over one or more processes.",
               "train_resnet"};
  app.footer(kFooter);
  app.set_version_flag("--version",
                       str("train_resnet ", version(), " (lockstep, ", build_commit(), ")"));
  add_training_flags(app, o);
  const CLI::App* evaluate = add_evaluate(app, o);
  CLI::App* predict =
      app.add_subcommand("predict", "What a model trained on a folder of images sees in others");
  add_predict_flags(*predict, "train_resnet predict", o.prediction);
  app.require_subcommand(0, 1);

  o.trainer.arguments = normalize_flags(argc, argv);
  const auto code = parse_command_line(app, o.trainer.arguments, [&]() -> std::string {
    if (evaluate->parsed() || predict->parsed()) {
      const std::string stray = stray_flag(app, evaluate->parsed() ? *evaluate : *predict);
      if (!stray.empty()) return stray;
      return wrong_device_flags(evaluate->parsed() ? o.trainer.device : o.prediction.device);
    }
    return wrong_flags(app, o);
  });
  if (code) return code;
  if (predict->parsed()) o.command = Command::kPredict;
  if (evaluate->parsed()) o.command = Command::kEvaluate;
  auto& settings = o.trainer.settings;
  settings = settings_of(evaluate->parsed() ? *evaluate : app);
  if (o.command == Command::kTrain) complete_settings(o.trainer.optimizer, settings);
  return std::nullopt;
}

}  // namespace lockstep::train_resnet
