#include "options.h"

#include "lockstep/base/str.h"
#include "lockstep/base/version.h"
#include "lockstep/models/resnet.h"
#include "lockstep/train/command_line.h"

#include <CLI/CLI.hpp>

#include <set>

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
  train_resnet --dataset synthetic --model resnet18 --ddp-mode naive --trace --output-dir out
  mpirun -n 2 train_resnet                                the same by Open MPI, MPICH, srun or torchrun
  RANK=0 WORLD_SIZE=2 MASTER_ADDR=host0 MASTER_PORT=29500 train_resnet
                                                          one rank of a job on several machines

Exit codes: 0 trained, 1 failed, 2 wrong usage, 128 + N ended by signal N.)";

// Beyond these, sums such as epochs times steps would overflow.
constexpr double kMost = 1e15;

}  // namespace

std::vector<std::pair<std::string, std::string>> shared_settings(const Options& options) {
  const std::set<std::string> own = {"data-dir",  "init-method", "interface", "nproc",
                                     "overwrite", "threads",     "trace",     "workers"};
  const std::set<std::string> paths = {"bucket-plan", "init-weights", "output-dir", "resume"};
  std::vector<std::pair<std::string, std::string>> shared;
  for (const auto& [name, value] : options.settings) {
    if (own.contains(name)) continue;
    const bool hidden = paths.contains(name) && !value.empty() && value != "auto";
    shared.emplace_back(name, hidden ? "a path" : value);
  }
  return shared;
}

std::optional<int> parse(int argc, const char* const* argv, Options& o) {
  CLI::App app{"Trains a ResNet on images, data-parallel over one or more processes.",
               "train_resnet"};
  app.footer(kFooter);
  app.set_version_flag("--version",
                       str("train_resnet ", version(), " (lockstep, ", build_commit(), ")"));
  const FlagCheck positive = within(1, kMost, "a number from 1 to 10^15");
  const FlagCheck count = within(0, kMost, "a number from 0 to 10^15");

  app.add_option("--model", o.model,
                 "resnet8, 20, 32, 56 (for CIFAR-sized images), 18, 34, 50, 101, 152")
      ->check(CLI::IsMember(resnet_names()));
  add_data_flags(app, o.data);

  app.add_option("--epochs", o.epochs, "Passes over the training data")->check(positive);
  app.add_option("--batch-size", o.batch_size, "Images per process and micro-batch")
      ->check(positive);
  app.add_option("--eval-batch-size", o.eval_batch_size, "The same for evaluation")
      ->check(positive);
  app.add_option("--grad-accum-steps", o.grad_accum_steps, "Micro-batches per optimizer step")
      ->check(positive);
  add_optimizer_flags(app, o.optimizer);
  app.add_option("--label-smoothing", o.label_smoothing, "Label smoothing")
      ->check(within(0, 1, "a value from 0 to 1"));
  app.add_option("--layer-drop", o.layer_drop,
                 "Probability of skipping a residual block in a step, the same blocks on all ranks")
      ->check(within(0, 0.99, "a probability from 0 to 0.99"));
  app.add_option("--seed", o.seed, "Seed of the weights, the order of the data, the augmentation")
      ->check(count);

  app.add_option("--nproc", o.nproc, "Processes to start on this machine")
      ->check(CLI::Range(1, 1024));
  app.add_option("--threads", o.threads, "Compute threads per process; 0: share out the processors")
      ->check(CLI::Range(0, 1024));
  add_ddp_flags(app, o.ddp);
  add_group_flags(app, o.group);
  app.add_flag("--sync-bn", o.sync_bn,
               "Batch normalisation by the statistics of all processes' samples");

  app.add_option("--output-dir", o.output_dir,
                 "Where checkpoints, metrics and traces go; none: nowhere")
      ->check(not_empty());
  auto* resume = app.add_option(
      "--resume", o.resume, "auto (the newest checkpoint in --output-dir, if any) or a checkpoint");
  resume->check(not_empty());
  app.add_flag("--overwrite", o.overwrite, "Replace the run in --output-dir")->excludes(resume);
  auto* init_weights = app.add_option(
      "--init-weights", o.init_weights,
      "Start from a safetensors file in torchvision's format; a resumed run has its own");
  init_weights->check(not_empty());
  app.add_flag("--partial", o.partial,
               "Take from --init-weights what fits, such as all but the classifier")
      ->needs(init_weights);
  app.add_option("--checkpoint-every", o.checkpoint_every,
                 "Optimizer steps between checkpoints; 0: each epoch")
      ->check(count);
  app.add_option("--log-interval", o.log_interval, "Optimizer steps between progress lines")
      ->check(positive);
  app.add_flag("--trace", o.trace, "Write a Chrome trace of some steps of each rank");
  add_config_option(app);
  for (CLI::Option* option : app.get_options()) {
    if (option->get_items_expected_max() > 0 && option->get_single_name() != "help") {
      option->capture_default_str();
    }
  }

  std::vector<std::string> arguments = normalize_flags(argc, argv);
  o.arguments = arguments;
  if (const auto code = parse_command_line(app, std::move(arguments))) return code;
  o.settings = settings_of(app);
  complete_settings(o.optimizer, o.settings);
  const char* wrong = wrong_ddp_flags(o.ddp);
  if (wrong == nullptr) wrong = wrong_optimizer_flags(app, o.optimizer);
  const std::string wrong_data = wrong_data_flags(o.data);
  if (o.output_dir.empty() &&
      (o.trace || o.resume == "auto" || o.checkpoint_every > 0 || o.overwrite)) {
    wrong = "--trace, --checkpoint-every, --overwrite and --resume auto want an --output-dir";
  } else if (!o.init_weights.empty() && !o.resume.empty() && o.resume != "auto") {
    wrong = "--resume CHECKPOINT brings its own weights; it takes no --init-weights";
  } else if (o.layer_drop > 0 && o.ddp.static_graph) {
    wrong = "--layer-drop leaves out other blocks in each step; it takes no --static-graph";
  } else if (o.layer_drop > 0 && has_caps(o.ddp)) {
    wrong = "--layer-drop gives each block a bucket; it takes no bucket caps and no --bucket-plan";
  } else if (!wrong_data.empty()) {
    wrong = wrong_data.c_str();
  }
  if (wrong != nullptr) {
    std::fprintf(stderr, "train_resnet: %s\n", wrong);
    return 2;
  }
  return std::nullopt;
}

}  // namespace lockstep::train_resnet
