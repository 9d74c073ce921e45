#include "lockstep/train/training_run.h"

#include "lockstep/autograd/autocast.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/distributed/comm/op_label.h"
#include "lockstep/distributed/comm/write_op_log.h"
#include "lockstep/distributed/reduce/comm_hook_runner.h"
#include "lockstep/train/rank_zero.h"
#include "lockstep/train/run_info.h"
#include "lockstep/train/stop_signal.h"
#include "lockstep/train/threads.h"

#include <filesystem>
#include <limits>
#include <span>
#include <utility>

namespace lockstep {
namespace {

std::string newest_checkpoint(const TrainerFlags& flags) {
  const std::string path = flags.output_dir + "/last.safetensors";
  std::error_code ignored;
  return std::filesystem::exists(path, ignored) ? path : "";
}

/// The checkpoint to go on from, the same on every rank; empty: start afresh.
std::string checkpoint_to_resume(const TrainerFlags& flags, ProcessGroup& group) {
  if (flags.resume != "auto") return flags.resume;
  const auto bytes = broadcast_from_rank_zero(group, "resume", [&] {
    const std::string path = newest_checkpoint(flags);
    const auto text = std::as_bytes(std::span(path));
    return std::vector<std::byte>(text.begin(), text.end());
  });
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

void preflight_flags(const TrainerFlags& flags, int world) {
  check_group_flags(flags.group, world);
  check(!flags.cuda_graph || world == 1, kGraphOfOneProcess);
  device_of(flags.device);
  for (const Fault& fault : parse_faults(flags.faults)) check_fault(fault, world);
  check(
      flags.ddp.mode != "local" || world == 1 || flags.resume.empty(),
      "--resume: with --ddp-mode local each process has a model of its own, and a checkpoint holds "
      "only that of rank 0; start afresh");
}

bool preflight_files(const TrainerFlags& flags, int world, const std::vector<RunTrait>& traits,
                     const std::function<std::vector<NamedParameter>()>& parameters) {
  if (!flags.output_dir.empty()) RunDir::check(run_dir_options(flags));
  if (!flags.ddp.bucket_plan.empty()) {
    std::vector<ParamSpec> specs;
    for (const auto& [name, parameter] : parameters()) {
      specs.push_back({name, parameter.shape(), parameter.dtype()});
    }
    read_bucket_plan(flags.ddp.bucket_plan, specs);
  }
  const std::string from = flags.resume == "auto" ? newest_checkpoint(flags) : flags.resume;
  if (from.empty()) return false;
  const Checkpoint header = read_checkpoint_header(from);
  if (!header.sharing || header.sharing->ranks == world) {
    check_traits(from, header.traits, traits);
    return true;
  }
  check_traits(from, without_sharing(header.traits), without_sharing(traits));
  reshare(from, header.position, *header.sharing,
          {.ranks = world, .batch_size = flags.batch_size, .accumulated = flags.grad_accum_steps},
          flags.max_steps > 0);
  return true;
}

TrainingRun::TrainingRun(const char* program, const TrainerFlags& flags, ProcessGroup& group,
                         const RankPlace& place)
    : program_(program),
      flags_(flags),
      group_(group),
      place_(place),
      threads_(set_threads(flags.threads, place)),
      device_(use_device(flags.device)),
      progress_(group.rank() == 0 ? stdout : nullptr),
      faults_(parse_faults(flags.faults), group) {
  check(!flags.cuda_graph || group.size() == 1, kGraphOfOneProcess);
}

void TrainingRun::open() {
  if (!flags_.output_dir.empty()) {
    run_on_rank_zero(group_, "output directory",
                     [&] { run_dir_ = std::make_unique<RunDir>(run_dir_options(flags_)); });
  }
  from_ = checkpoint_to_resume(flags_, group_);
}

void TrainingRun::init_weights(const char* flag, const std::function<std::string()>& load) {
  if (!from_.empty()) return;
  run_on_rank_zero(group_, flag, [&] { weights_ = load(); });
}

void TrainingRun::or_leave_word(const std::function<void()>& work) {
  try {
    work();
  } catch (const std::exception& error) {
    group_.abort(error.what());
    try {
      if (!flags_.output_dir.empty()) {
        write_op_log(group_, op_log_file(flags_.output_dir, group_.rank()), error.what());
      }
    } catch (const std::exception& unwritten) {
      log_warning(str(unwritten.what(), "; lockstep diagnose will lack it"));
    }
    throw;
  }
}

DataParallel& TrainingRun::wrap(Module& model,
                                const std::function<DdpOptions(DdpOptions)>& adjust) {
  or_leave_word([&] { wrap_model(model, adjust); });
  return *ddp_;
}

void TrainingRun::wrap_model(Module& model, const std::function<DdpOptions(DdpOptions)>& adjust) {
  const OpLabel label("wrapping the model");
  model_ = &model;
  model.to(device_);
  // Nothing can be measured within a graph, and one process has no communication to tell of.
  DdpOptions options = ddp_options(flags_.ddp, flags_.cuda_graph ? nullptr : &timeline_);
  if (adjust != nullptr) options = adjust(std::move(options));
  hook_ = comm_hook(flags_.ddp);
  if (hook_ != nullptr) options.reduction = run_comm_hook(hook_, group_);
  options = with_watch(std::move(options));
  options.reduction = faults_.reduction(std::move(options.reduction));
  ddp_ = std::make_unique<DataParallel>(faults_.module(model), group_, std::move(options));
  no_sync_ = faults_.after_wrapping(*ddp_);
  if (!flags_.ddp.bucket_plan.empty()) adopt_bucket_plan(flags_.ddp.bucket_plan, *ddp_);
  optimizer_ = make_optimizer(flags_.optimizer, model.named_parameters());
  ema_ = make_ema(flags_.optimizer, model.named_parameters());
}

DdpOptions TrainingRun::with_watch(DdpOptions options) {
  // One process looks at the loss alone (nonfinite_options), so a graph need not note anything.
  if (flags_.on_nonfinite == "ignore" || flags_.cuda_graph) return options;
  options.nonfinite = [this](const GradBucket& bucket) { nonfinite_.note(bucket); };
  if (flags_.faults.faults.empty() && device_.is_cpu()) return options;
  // Faults spoil buckets after the reducer has looked at them; on a device it does not look.
  if (options.reduction == nullptr) {
    options.reduction = [this](const GradBucket& b) { return group_.all_reduce(b.flat); };
  }
  options.reduction = nonfinite_.watched(std::move(options.reduction));
  return options;
}

NonfiniteOptions TrainingRun::nonfinite_options() const {
  const bool skip = flags_.on_nonfinite == "skip", alone = group_.size() == 1;
  // One process alone would have to read all its gradients for it. Where a step is not to be left
  // out that is not worth its time: the loss tells, a step or a progress line later.
  const bool look = flags_.on_nonfinite != "ignore" && ddp_->communicates() && (skip || !alone);
  return {.action = !look  ? OnNonfinite::kIgnore
                    : skip ? OnNonfinite::kSkip
                           : OnNonfinite::kError,
          .look_at_all = alone || hook_ != nullptr};
}

TrainerOptions TrainingRun::options_for(const TrainingTask& task) const {
  return {.epochs = flags_.epochs,
          .max_steps = flags_.max_steps,
          .grad_accum_steps = flags_.grad_accum_steps,
          .batch_size = flags_.batch_size,
          .clip_grad_norm =
              flags_.optimizer.clip_grad_norm.value_or(std::numeric_limits<double>::infinity()),
          .log_interval = flags_.log_interval,
          .checkpoint_every = flags_.checkpoint_every,
          .checkpoint_minutes = flags_.checkpoint_minutes,
          .agree_seconds = flags_.agree_seconds,
          .keep_checkpoints = flags_.keep_checkpoints,
          .evaluate_every = flags_.evaluate_every,
          .evaluate_first = task.evaluate_first,
          .best_by = task.best_by,
          .words = task.words,
          .nonfinite = nonfinite_options(),
          .check_replicas_every = flags_.check_replicas_every,
          .capture_steps = flags_.cuda_graph,
          .traits = task.traits,
          .class_names = task.class_names};
}

void TrainingRun::introduce(const TrainingTask& task) {
  int64_t parameters = 0;
  for (const NamedParameter& p : model_->named_parameters()) {
    parameters += p.parameter.data().numel();
  }
  const size_t buckets = ddp_->plan().buckets.size();
  say(str(task.description, ", ", parameters, " parameters in ", buckets,
          buckets == 1 ? " bucket; " : " buckets; ", task.data));
  const std::string network = describe(place_);
  const int world = group_.size();
  const int64_t accumulated = flags_.grad_accum_steps;
  say(str(world, world == 1 ? " process" : " processes", " (", group_.backend(),
          network.empty() ? "" : ", " + network, ") x ", threads_,
          threads_ == 1 ? " thread" : " threads", "; global batch ",
          flags_.batch_size * world * accumulated, " = ", world, " x ", flags_.batch_size,
          accumulated > 1 ? str(" x ", accumulated, " accumulated") : "", "; gradients ",
          flags_.ddp.mode, hook_ == nullptr ? "" : ", by the hook " + flags_.ddp.comm_hook,
          flags_.amp.amp == "off" ? "" : "; mixed precision, " + flags_.amp.amp,
          device_.is_cpu() ? "" : "; on " + flags_.device.device,
          flags_.device.tf32 ? ", products in TF32" : "",
          flags_.cuda_graph ? ", steps captured as a graph" : ""));
  const std::string notice = device_.is_cpu() ? amp_notice(flags_.amp) : "";
  if (!notice.empty()) say(notice);
  for (const std::string& warning : fault_warnings(flags_.faults)) say(warning);
  if (!weights_.empty()) say(weights_);
}

void TrainingRun::resume(Trainer& trainer) {
  const BucketPlan given = ddp_->plan();
  const std::string other_ranks = trainer.resume(from_);
  check(flags_.ddp.bucket_plan.empty() || ddp_->plan() == given, "resume ", from_,
        ": wanted the checkpoint's bucket plan, got another one in ", flags_.ddp.bucket_plan,
        "; use the same, or start afresh in another --output-dir");
  for (size_t i = 0; i < optimizer_->group_count(); ++i) {
    // The checkpoint's rate would win over --lr without a word.
    optimizer_->set_lr(flags_.optimizer.lr_in_force(), i);
  }
  say(str("resumed from ", from_, " at step ", trainer.position().step));
  if (!other_ranks.empty()) say(other_ranks);
}

void TrainingRun::throw_stopped(const TrainResult& result) const {
  std::string message =
      str("stopped by ", name_of_signal(result.stopped_by), " at step ", result.position.step);
  if (flags_.output_dir.empty()) {
    message += "; nothing is kept without --output-dir";
  } else {
    message += str("; ", flags_.output_dir, "/last.safetensors is kept; the same command ",
                   flags_.resume == "auto" ? "goes on" : "with --resume auto goes on");
  }
  throw StoppedBySignal{.signal = result.stopped_by, .message = message};
}

TrainResult TrainingRun::train(const TrainingTask& task) {
  TrainResult result;
  or_leave_word([&] { result = run(task); });
  return result;
}

TrainResult TrainingRun::run(const TrainingTask& task) {
  check(ddp_ != nullptr, "TrainingRun: wanted wrap() before train()");
  const int64_t steps_per_epoch =
      steps_in_epoch(task.train_data.batches(), flags_.grad_accum_steps);
  const int64_t steps = flags_.max_steps > 0 ? flags_.max_steps : flags_.epochs * steps_per_epoch;
  const StopSignals signals;
  Trainer trainer({.model = *model_,
                   .ddp = *ddp_,
                   .group = group_,
                   .optimizer = *optimizer_,
                   .schedule = make_schedule(flags_.optimizer, steps, steps_per_epoch),
                   .train_data = task.train_data,
                   .test_data = task.test_data,
                   .rng = task.rng,
                   .timeline = timeline_,
                   .comm_hook = hook_.get(),
                   .nonfinite = &nonfinite_,
                   .ema = ema_.get(),
                   .run_dir = run_dir_.get(),
                   .step_log_dir = flags_.output_dir,
                   .console = is_rank_zero() ? stdout : nullptr,
                   .asked_to_stop = [&signals] { return signals.noted(); }},
                  options_for(task));
  introduce(task);
  if (resumes()) resume(trainer);
  if (run_dir_ != nullptr) {
    write_run_info(run_dir_->file("run.json"),
                   {.program = program_,
                    .arguments = flags_.arguments,
                    .settings = flags_.settings,
                    .seed = flags_.seed,
                    .world_size = group_.size(),
                    .threads = threads_,
                    .resumed_step = resumes() ? trainer.position().step : -1,
                    .faults = fault_warnings(flags_.faults)});
  }
  const Autocast precision(precision_of(flags_.amp));  // of training and of evaluations
  const TrainResult result = trainer.run();
  say("\n" + trainer.step_times().table());
  if (result.stopped_by != 0) throw_stopped(result);
  return result;
}

}  // namespace lockstep
