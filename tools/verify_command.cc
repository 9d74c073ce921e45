#include "lockstep/autograd/autocast.h"
#include "lockstep/distributed/comm/launcher.h"
#include "lockstep/distributed/comm/make_process_group.h"
#include "lockstep/distributed/reduce/comm_hook_runner.h"
#include "lockstep/optim/sgd.h"
#include "lockstep/train/amp_flag.h"
#include "lockstep/train/ddp_flags.h"
#include "lockstep/train/fault_flags.h"
#include "lockstep/train/group_flags.h"
#include "lockstep/train/model_task.h"
#include "lockstep/train/progress.h"
#include "lockstep/train/verify/verify.h"

#include "command.h"
#include "own_arguments.h"

#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>
#include <utility>

namespace lockstep::tools {
namespace {

constexpr const char* kFooter = R"(
Trains in every mode at once on synthetic images or texts, with random delays, and compares after each step: replicas with each
other, modes with each other, N ranks with one process. The last line is PASS or FAIL, with what differs most or first.

Examples:
  lockstep verify                                    resnet8, 3 ranks as threads
  lockstep verify --model resnet50 --nproc 4 --steps 2
  lockstep verify --model bert-tiny                  masked words, without dropout
  lockstep verify --backend gloo --find-unused-parameters --layer-drop 0.3
  lockstep verify --fault scale-twice                see it fail

Exit codes: 0 passed, 1 failed, 2 wrong usage.)";

constexpr const char* kLegend =
    "Differences are of parameters, relative. Allowed is no bit (0) where sums have one order, "
    "else ";
constexpr const char* kLegendEnd = R"( times
what another order of the samples changes in one process. Batch normalisation sees a rank's own samples, so one process
takes the ranks' shares in turn; as one batch it takes them with SyncBN.
)";

struct Flags {
  ModelTask task;
  std::string dtype = "f32";
  int nproc = 3;
  std::string backend = "threads";
  int64_t steps = 8;
  int64_t batch_size = 4;
  int64_t grad_accum_steps = 1;
  double lr = 0.05;
  double momentum = 0.9;
  std::optional<double> clip_grad_norm;
  AmpFlag amp;
  bool sync_bn = false;
  int64_t whole_batch_steps = 2;
  int64_t delay_us = 200;
  DdpFlags ddp;
  GroupFlags group;
  FaultFlags faults;
  bool mode_given = false;
};

LossModel make_model_of(const Flags& f) {
  LossModel model = make_loss_model(f.task);
  model.loss = [&f, loss = std::move(model.loss)](const Batch& batch) {
    const Autocast precision(precision_of(f.amp));
    return loss(batch);
  };
  return model;
}

/// Without faults, the mode and the reduction.
DdpOptions ddp_of(const Flags& f) {
  DdpOptions ddp = ddp_options(f.ddp, nullptr);
  ddp.mode = DdpMode::kOverlapped;
  return with_layer_drop(std::move(ddp), f.task.images.layer_drop);
}

std::vector<DdpMode> modes_of(const Flags& f) {
  if (!f.mode_given) return VerifyOptions{}.modes;
  const DdpMode mode = parse_ddp_mode(f.ddp.mode);
  if (mode == DdpMode::kNaive) return {mode};
  return {DdpMode::kNaive, mode};
}

VerifyOptions options_of(const Flags& f) {
  VerifyOptions o{.ranks = f.nproc, .steps = f.steps, .micro_batches = f.grad_accum_steps};
  o.optimizer = [&f](std::vector<NamedParameter> parameters) {
    return std::make_unique<Sgd>(std::move(parameters),
                                 SgdOptions{.lr = f.lr, .momentum = f.momentum});
  };
  if (f.clip_grad_norm) o.clip_grad_norm = *f.clip_grad_norm;
  o.modes = modes_of(f);
  o.ddp = ddp_of(f);
  o.several_buckets = !has_caps(f.ddp);
  if (!f.ddp.comm_hook.empty()) {
    o.reduction = [&f](ProcessGroup& group) { return run_comm_hook(comm_hook(f.ddp), group); };
    o.lossy = f.ddp.comm_hook != "allreduce";
  }
  if (!f.ddp.bucket_plan.empty()) {
    o.wrapped = [&f](DdpMode mode, DataParallel& ddp) {
      if (mode != DdpMode::kNaive) adopt_bucket_plan(f.ddp.bucket_plan, ddp);
    };
  }
  o.group = group_options(f.group);
  o.sync_batch_norm = f.sync_bn;
  o.whole_batch_steps = f.whole_batch_steps;
  o.f64 = f.dtype == "f64";
  o.faults = parse_faults(f.faults);
  o.delays = std::chrono::microseconds(f.delay_us);
  o.timeout = std::chrono::milliseconds(static_cast<int64_t>(f.group.timeout * 1000));
  return o;
}

/// A line now and then, so that nobody wonders.
std::function<void(int64_t)> progress_of(const Flags& f, Progress& progress) {
  const auto last =
      std::make_shared<std::chrono::steady_clock::time_point>(std::chrono::steady_clock::now());
  return [&f, &progress, last](int64_t steps) {
    const auto now = std::chrono::steady_clock::now();
    if (now - *last < std::chrono::seconds(2) || steps == f.steps) return;
    *last = now;
    progress.update(str("step ", steps, "/", f.steps, ": nothing differs so far"));
  };
}

void introduce(const Flags& f, int ranks, const char* backend, Progress& progress) {
  // Where verify() goes over to f64.
  const bool rounded = launched() && ranks > 2 && !f.group.canonical && f.ddp.comm_hook.empty();
  int64_t parameters = 0;
  const LossModel model = make_model_of(f);
  for (const NamedParameter& p : model.module->named_parameters()) {
    parameters += p.parameter.data().numel();
  }
  progress.say(str(f.task.model, ", ", parameters, " parameters, ",
                   rounded              ? "f64"
                   : f.amp.amp == "off" ? f.dtype
                                        : f.amp.amp + " by --amp",
                   "; ", ranks, " ranks (", backend, "); ", f.steps, " steps of ", ranks, " x ",
                   f.batch_size, f.grad_accum_steps > 1 ? str(" x ", f.grad_accum_steps) : "", " ",
                   describe_samples(f.task)));
  for (const std::string& warning : fault_warnings(f.faults)) progress.say(warning);
}

int run_verify(const Flags& f) {
  check_group_flags(f.group, f.nproc);
  for (const Fault& fault : parse_faults(f.faults)) check_fault(fault, f.nproc);
  const bool processes = launched() || !f.group.init_method.empty();
  if (f.backend == "gloo" && !processes) {
    const int code = launch_self({.nproc = f.nproc}, own_arguments());
    // A rank that was killed is a failure like others; what ended all of them is told as it is.
    const bool stopped = code == 128 + SIGINT || code == 128 + SIGTERM || code == 128 + SIGHUP;
    return code > 128 && !stopped ? 1 : code;
  }
  VerifyOptions options = options_of(f);
  const VerifyModel model = [&f] { return make_model_of(f); };
  const VerifyBatch batch = [&f](int64_t step, int64_t micro, int rank) {
    const auto number = static_cast<uint64_t>((step * f.grad_accum_steps + micro) * 1024 + rank);
    return synthetic_batch(f.task, f.batch_size, number);
  };
  std::unique_ptr<ProcessGroup> group;
  if (processes) {
    ProcessGroupOptions joining = process_group_options(f.group);
    joining.timeout = options.timeout;
    group = make_process_group(joining);
  }
  const bool first = group == nullptr || group->rank() == 0;
  Progress progress(first ? stdout : nullptr);
  introduce(f, group ? group->size() : f.nproc, group ? group->backend() : "threads", progress);
  options.progress = progress_of(f, progress);
  const VerifyReport report =
      group ? verify_on(*group, model, batch, options) : verify(model, batch, options);
  progress.say("\n" + report.table());
  progress.say(str(kLegend, kVerifyMargin, kLegendEnd));
  progress.say(report.verdict);
  // Rank 0 says it for all: a launcher ends the others when one fails.
  return report.passed || !first ? 0 : 1;
}

}  // namespace

Command verify_command(CLI::App& program) {
  CLI::App* app = program.add_subcommand(
      "verify", "Prove that N ranks train as one process does, in every mode, for a model");
  app->footer(kFooter);
  const auto f = std::make_shared<Flags>();
  f->group.timeout = 60;
  const auto positive = CLI::Range(int64_t{1}, int64_t{1'000'000});
  app->add_option("--model", f->task.model, "As train_resnet --model, or bert-tiny to bert-large")
      ->check(CLI::IsMember(model_task_names()));
  app->add_option("-n,--nproc", f->nproc, "How many ranks; at 2, sums commute and hide faults")
      ->check(CLI::Range(2, 64));
  app->add_option("--backend", f->backend, "threads, or gloo: processes of this machine")
      ->check(CLI::IsMember({"threads", "gloo"}));
  app->add_option("--steps", f->steps, "Optimizer steps")->check(positive);
  app->add_option("--batch-size", f->batch_size, "Images or sequences of a rank")->check(positive);
  app->add_option("--image-size", f->task.images.image_size, "Pixels")->check(CLI::Range(8, 1024));
  app->add_option("--dtype", f->dtype,
                  "f32, or f64 (plain kernels); over gloo and 3 or more ranks it is f64")
      ->check(CLI::IsMember({"f32", "f64"}));
  app->add_option("--lr", f->lr, "Learning rate")->check(CLI::Range(0.0, 1e6));
  app->add_option("--momentum", f->momentum, "Momentum")->check(CLI::Range(0.0, 1.0));
  app->add_option("--clip-grad-norm", f->clip_grad_norm, "Clip; not given: no clipping")
      ->check(CLI::Range(0.0, 1e30));
  app->add_option("--grad-accum-steps", f->grad_accum_steps, "Micro-batches of a step")
      ->check(positive);
  app->add_option("--layer-drop", f->task.images.layer_drop, "As train_resnet --layer-drop")
      ->check(CLI::Range(0.0, 0.99));
  app->add_option("--whole-batch-steps", f->whole_batch_steps,
                  "Steps that are compared with the whole batch besides, in f64; 0: none")
      ->check(CLI::Range(int64_t{0}, int64_t{1'000'000}));
  app->add_flag("--sync-bn", f->sync_bn, "Every replica with SyncBN");
  app->add_option("--seed", f->task.seed, "Seed of weights and data");
  app->add_option("--delay-us", f->delay_us, "Random delays up to this; 0: none")
      ->check(CLI::Range(0, 1'000'000));
  add_amp_flag(*app, f->amp);
  add_ddp_flags(*app, f->ddp);
  add_group_flags(*app, f->group);
  add_fault_flags(*app, f->faults);
  return {app, [app, f] {
            f->mode_given = app->count("--ddp-mode") > 0;
            const char* wrong = wrong_ddp_flags(f->ddp);
            if (f->mode_given && f->ddp.mode == "local") {
              wrong = "--ddp-mode local averages nothing, so there is nothing to verify";
            } else if (f->task.images.layer_drop > 0 && (f->ddp.static_graph || has_caps(f->ddp))) {
              wrong = "--layer-drop takes no --static-graph, bucket caps or --bucket-plan";
            }
            if (f->task.is_text() &&
                (f->task.images.layer_drop > 0 || f->sync_bn || app->count("--image-size"))) {
              wrong = "--layer-drop, --sync-bn and --image-size are for ResNets";
            }
            if (f->dtype == "f64" && f->amp.amp != "off") wrong = "--dtype f64 takes no --amp";
            if (wrong != nullptr) throw ArgumentError(str("verify: ", wrong));
            return run_verify(*f);
          }};
}

}  // namespace lockstep::tools
