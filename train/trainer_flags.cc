#include "lockstep/train/trainer_flags.h"

#include "lockstep/base/str.h"
#include "lockstep/train/command_line.h"

#include <CLI/CLI.hpp>

namespace lockstep {
namespace {

// Beyond these, sums such as epochs times steps would overflow.
constexpr double kMost = 1e15;

FlagCheck positive() { return within(1, kMost, "a number from 1 to 10^15"); }
FlagCheck count() { return within(0, kMost, "a number from 0 to 10^15"); }

}  // namespace

void add_loop_flags(CLI::App& app, TrainerFlags& flags, const TrainerWords& words) {
  auto* epochs = app.add_option(words.epochs, flags.epochs, "Passes over the training data");
  epochs->check(positive());
  app.add_option("--max-steps", flags.max_steps,
                 "End after so many optimizer steps, in whatever epoch; 0: by the epochs")
      ->check(count())
      ->excludes(epochs);
  app.add_option("--batch-size", flags.batch_size, words.samples + " per process and micro-batch")
      ->check(positive());
  add_eval_batch_size(app, flags, words);
  add_uneven_flag(app, flags.uneven);
  app.add_option("--grad-accum-steps", flags.grad_accum_steps, "Micro-batches per optimizer step")
      ->check(positive());
  add_amp_flag(app, flags.amp);
  add_device_flag(app, flags.device);
  app.add_flag("--cuda-graph", flags.cuda_graph,
               "Capture steps whose shapes recur as a CUDA graph and replay them, which spares the "
               "host the launching of each kernel; for one process");
}

void add_eval_batch_size(CLI::App& app, TrainerFlags& flags, const TrainerWords& words) {
  app.add_option("--eval-batch-size", flags.eval_batch_size,
                 words.samples + " per process and batch of an evaluation")
      ->check(positive());
}

void add_seed_flag(CLI::App& app, TrainerFlags& flags, const TrainerWords& words) {
  app.add_option("--seed", flags.seed, "Seed of " + words.seeded)->check(count());
}

void add_process_flags(CLI::App& app, TrainerFlags& flags) {
  app.add_option("--nproc", flags.nproc, "Processes to start on this machine")
      ->check(CLI::Range(1, 1024));
  app.add_option("--grace", flags.grace,
                 "Seconds that the processes of --nproc may take to save and end after SIGTERM or "
                 "SIGUSR1")
      ->check(within(0, 1e6, "a time from 0 to 10^6 seconds"));
  app.add_option("--max-restarts", flags.max_restarts,
                 "Start all processes of --nproc again, to go on, when one has died; at most so "
                 "many times")
      ->check(CLI::Range(0, 1000000));
  app.add_option("--threads", flags.threads,
                 "Compute threads per process; 0: share out the processors")
      ->check(CLI::Range(0, 1024));
}

void add_run_flags(CLI::App& app, TrainerFlags& flags) {
  app.add_option("--output-dir", flags.output_dir,
                 "Where checkpoints, metrics and what lockstep report reads go; not given: nowhere")
      ->check(not_empty());
  auto* resume =
      app.add_option("--resume", flags.resume,
                     "auto (the newest checkpoint in --output-dir, if any) or a checkpoint");
  resume->check(not_empty());
  app.add_flag("--overwrite", flags.overwrite, "Replace the run in --output-dir")->excludes(resume);
  app.add_option("--checkpoint-every", flags.checkpoint_every,
                 "Optimizer steps between checkpoints; 0: each evaluation")
      ->check(count());
  app.add_option("--checkpoint-minutes", flags.checkpoint_minutes,
                 "Also after so many minutes without one; 0: the time does not count")
      ->check(within(0, 1e6, "a time from 0 to 10^6 minutes"));
  app.add_option("--agree-seconds", flags.agree_seconds,
                 "For so long it may go unheard that a rank is asked to stop; 0: no step long")
      ->check(within(0, 1e6, "a time from 0 to 10^6 seconds"));
  app.add_option("--keep-checkpoints", flags.keep_checkpoints,
                 "Beside last and best, keep so many of the newest, as step-N.safetensors")
      ->check(count());
  app.add_option("--evaluate-every", flags.evaluate_every,
                 "Optimizer steps between evaluations; 0: each epoch")
      ->check(count());
  app.add_option("--log-interval", flags.log_interval, "Optimizer steps between progress lines")
      ->check(positive());
  app.add_option("--check-replicas-every", flags.check_replicas_every,
                 "Optimizer steps between checks that all processes hold the same weights; 0: none")
      ->check(count());
  app.add_option("--on-nonfinite", flags.on_nonfinite,
                 "Gradients that are not finite: error ends the run, skip leaves the step out, "
                 "ignore does not look")
      ->check(CLI::IsMember({"error", "skip", "ignore"}));
  add_fault_flags(app, flags.faults)->excludes(resume);
}

namespace {

std::string wrong_graph_flags(const TrainerFlags& flags) {
  if (!flags.cuda_graph) return "";
  if (named_device(flags.device).is_cpu()) {
    return "--cuda-graph captures what a GPU does; it wants --device cuda";
  }
  if (flags.nproc > 1) return kGraphOfOneProcess;
  if (flags.on_nonfinite == "skip") {
    return "--on-nonfinite skip looks at the gradients within a step; it takes no --cuda-graph";
  }
  if (!flags.faults.faults.empty()) {
    return "--fault happens on the host, in a step of its own; it takes no --cuda-graph";
  }
  return "";
}

}  // namespace

std::string wrong_trainer_flags(const CLI::App& app, const TrainerFlags& flags) {
  if (const char* wrong = wrong_ddp_flags(flags.ddp)) return wrong;
  if (const char* wrong = wrong_optimizer_flags(app, flags.optimizer)) return wrong;
  if (flags.output_dir.empty() &&
      (flags.resume == "auto" || flags.checkpoint_every > 0 || flags.overwrite ||
       flags.checkpoint_minutes > 0 || flags.keep_checkpoints > 0)) {
    return "--checkpoint-every, --checkpoint-minutes, --keep-checkpoints, --overwrite and --resume "
           "auto want an --output-dir";
  }
  if (flags.uneven.uneven == "join" && flags.ddp.static_graph) {
    return "--uneven join lets ranks without samples use no parameter; it takes no --static-graph";
  }
  const std::string wrong_device = wrong_device_flags(flags.device);
  if (!wrong_device.empty()) return wrong_device;
  if (!named_device(flags.device).is_cpu() &&
      (flags.group.canonical || !flags.group.emulated_link.empty())) {
    return "--canonical and --emulated-link move gradients through host memory; they take no "
           "--device cuda";
  }
  const std::string wrong_graph = wrong_graph_flags(flags);
  if (!wrong_graph.empty()) return wrong_graph;
  if (flags.max_restarts > 0 && flags.resume != "auto") {
    return "--max-restarts wants --resume auto and an --output-dir, to go on from";
  }
  if (flags.on_nonfinite == "skip" && flags.ddp.comm_hook.starts_with("topk")) {
    return "--comm-hook topk keeps what it has not sent, and so would keep what is not finite; it "
           "takes no --on-nonfinite skip";
  }
  if (!flags.faults.faults.empty() && flags.ddp.mode == "local") {
    return "--ddp-mode local does not communicate; it takes no --fault";
  }
  return "";
}

std::vector<std::pair<std::string, std::string>> shared_settings(const TrainerFlags& flags,
                                                                 std::set<std::string> own,
                                                                 std::set<std::string> paths) {
  own.insert({"grace", "init-method", "interface", "max-restarts", "nproc", "overwrite",
              "stall-warning", "start-timeout", "threads", "timeout"});
  paths.insert({"bucket-plan", "output-dir", "resume"});
  std::vector<std::pair<std::string, std::string>> shared;
  for (const auto& [name, value] : flags.settings) {
    if (own.contains(name)) continue;
    const bool hidden = paths.contains(name) && !value.empty() && value != "auto";
    shared.emplace_back(name, hidden ? "a path" : value);
  }
  return shared;
}

std::vector<RunTrait> trainer_traits(const TrainerFlags& flags, int world) {
  std::vector<RunTrait> all = {{kRanksTrait, str(world)},
                               {kBatchTrait, str(flags.batch_size)},
                               {kAccumulateTrait, str(flags.grad_accum_steps)},
                               {"--seed", str(flags.seed)}};
  for (RunTrait& trait : uneven_traits(flags.uneven)) all.push_back(std::move(trait));
  for (RunTrait& trait : amp_traits(flags.amp)) all.push_back(std::move(trait));
  for (RunTrait& trait : optimizer_traits(flags.optimizer)) all.push_back(std::move(trait));
  for (RunTrait& trait : ddp_traits(flags.ddp)) all.push_back(std::move(trait));
  for (RunTrait& trait : group_traits(flags.group)) all.push_back(std::move(trait));
  // Nobody goes on from a run that was broken on purpose.
  for (const std::string& fault : flags.faults.faults) all.push_back({"--fault", fault});
  return all;
}

RunDirOptions run_dir_options(const TrainerFlags& flags) {
  return {.path = flags.output_dir, .resume = !flags.resume.empty(), .overwrite = flags.overwrite};
}

}  // namespace lockstep
