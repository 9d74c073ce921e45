#include "run.h"

#include "lockstep/autograd/ops/loss.h"
#include "lockstep/distributed/data_parallel.h"
#include "lockstep/distributed/faults/faulty_rank.h"
#include "lockstep/distributed/reduce/comm_hook_runner.h"
#include "lockstep/distributed/sync_batch_norm.h"
#include "lockstep/models/resnet_exchange.h"
#include "lockstep/train/image_task.h"
#include "lockstep/train/rank_zero.h"
#include "lockstep/train/run_info.h"
#include "lockstep/train/threads.h"
#include "lockstep/train/trainer.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

namespace lockstep::train_resnet {
namespace {

DistributedSampler sampler(const Options& o, const Dataset& data, bool train, int rank, int world) {
  return DistributedSampler({.size = data.size(),
                             .batch_size = train ? o.batch_size : o.eval_batch_size,
                             .rank = rank,
                             .world_size = world,
                             .seed = o.seed,
                             .shuffle = train,
                             .last_batch = train ? LastBatch::kDrop : LastBatch::kKeep});
}

/// What a checkpoint must have in common with this run. Rates, epochs and intervals may change on
/// purpose; these would give a run that is neither the old one nor a new one.
std::vector<RunTrait> traits(const Options& o, int world) {
  std::vector<RunTrait> all = {{"--model", o.model},
                               {"--nproc (world size)", str(world)},
                               {"--batch-size", str(o.batch_size)},
                               {"--grad-accum-steps", str(o.grad_accum_steps)},
                               {"--seed", str(o.seed)}};
  for (RunTrait& trait : data_traits(o.data)) all.push_back(std::move(trait));
  all.push_back({"--sync-bn", o.sync_bn ? "on" : "off"});
  all.push_back({"--layer-drop", str(o.layer_drop)});
  for (RunTrait& trait : optimizer_traits(o.optimizer)) all.push_back(std::move(trait));
  for (RunTrait& trait : ddp_traits(o.ddp)) all.push_back(std::move(trait));
  for (RunTrait& trait : group_traits(o.group)) all.push_back(std::move(trait));
  // Nobody goes on from a run that was broken on purpose.
  for (const std::string& fault : o.faults.faults) all.push_back({"--fault", fault});
  return all;
}

std::unique_ptr<ResNet> make_model(const Options& o, const Dataset& data) {
  const ImageFormat format = data.format();
  return lockstep::make_model({.model = o.model,
                               .image_size = std::max(format.height, format.width),
                               .channels = format.channels,
                               .classes = data.classes(),
                               .layer_drop = o.layer_drop,
                               .seed = o.seed});
}

/// Loads --init-weights; in words, what was found.
std::string load_init_weights(const Options& o, ResNet& model) {
  try {
    const ImportReport report = import_resnet(model, o.init_weights, {.strict = !o.partial});
    return str("weights from ", o.init_weights, ": ", report.text());
  } catch (const ArgumentError& error) {
    throw ArgumentError(str("--init-weights ", error.what(),
                            o.partial ? "; choose another --model"
                                      : "; --partial takes what fits, such as for other classes"));
  }
}

std::string newest_checkpoint(const Options& o) {
  const std::string path = o.output_dir + "/last.safetensors";
  std::error_code ignored;
  return std::filesystem::exists(path, ignored) ? path : "";
}

/// The checkpoint to go on from, the same on every rank; empty: start afresh.
std::string checkpoint_to_resume(const Options& o, ProcessGroup& group) {
  if (o.resume != "auto") return o.resume;
  const auto bytes = broadcast_from_rank_zero(group, "resume", [&] {
    const std::string path = newest_checkpoint(o);
    const auto text = std::as_bytes(std::span(path));
    return std::vector<std::byte>(text.begin(), text.end());
  });
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

RunDirOptions run_dir_options(const Options& o) {
  return {.path = o.output_dir, .resume = !o.resume.empty(), .overwrite = o.overwrite};
}

}  // namespace

void preflight(const Options& o, int world) {
  check_group_flags(o.group, world);
  for (const Fault& fault : parse_faults(o.faults)) check_fault(fault, world);
  check(
      o.ddp.mode != "local" || world == 1 || o.resume.empty(),
      "--resume: with --ddp-mode local each process has a model of its own, and a checkpoint holds "
      "only that of rank 0; start afresh");
  const TrainingData data = open_data(o.data, o.seed, /*warn=*/false);
  sampler(o, *data.train, true, 0, world);
  sampler(o, *data.test, false, 0, world);
  if (!o.output_dir.empty()) RunDir::check(run_dir_options(o));
  if (!o.ddp.bucket_plan.empty()) {
    std::vector<ParamSpec> specs;
    for (const auto& [name, parameter] : make_model(o, *data.train)->named_parameters()) {
      specs.push_back({name, parameter.shape(), parameter.dtype()});
    }
    read_bucket_plan(o.ddp.bucket_plan, specs);
  }
  const std::string from = o.resume == "auto" ? newest_checkpoint(o) : o.resume;
  if (from.empty()) {
    if (!o.init_weights.empty()) load_init_weights(o, *make_model(o, *data.train));
    return;
  }
  check_traits(from, read_checkpoint_header(from).traits, traits(o, world));
}

void run(const Options& o, ProcessGroup& group, const RankPlace& place) {
  const int rank = group.rank(), world = group.size();
  const int threads = set_threads(o.threads, place);
  std::FILE* console = rank == 0 ? stdout : nullptr;
  Progress progress(console);
  FaultyRank faulty(parse_faults(o.faults), group);

  const TrainingData data = open_data(o.data, o.seed, /*warn=*/rank == 0);
  const auto& [train_set, test_set] = data;
  DataLoader train_data(train_set, sampler(o, *train_set, true, faulty.data_rank(), world),
                        {.workers = o.data.workers, .transform = data_transform(o.data, o.seed)});
  DataLoader test_data(test_set, sampler(o, *test_set, false, rank, world),
                       {.workers = o.data.workers});

  std::unique_ptr<RunDir> run_dir;
  if (!o.output_dir.empty()) {
    run_on_rank_zero(group, "output directory",
                     [&] { run_dir = std::make_unique<RunDir>(run_dir_options(o)); });
  }

  const auto model = make_model(o, *train_set);
  const std::string from = checkpoint_to_resume(o, group);
  std::string weights;
  if (!o.init_weights.empty() && from.empty()) {
    // DataParallel hands rank 0's on.
    run_on_rank_zero(group, "--init-weights", [&] { weights = load_init_weights(o, *model); });
  }
  const int64_t steps_per_epoch = steps_in_epoch(train_data.batches(), o.grad_accum_steps);
  Timeline timeline;
  DdpOptions reducing = with_layer_drop(ddp_options(o.ddp, &timeline), o.layer_drop);
  const std::shared_ptr<CommHook> hook = comm_hook(o.ddp);
  if (hook != nullptr) reducing.reduction = run_comm_hook(hook, group);
  reducing.reduction = faulty.reduction(std::move(reducing.reduction));
  DataParallel ddp(faulty.module(*model), group, std::move(reducing));
  const std::unique_ptr<NoSync> no_sync = faulty.after_wrapping(ddp);
  if (o.sync_bn) use_sync_batch_norm(*model, group);
  if (!o.ddp.bucket_plan.empty()) adopt_bucket_plan(o.ddp.bucket_plan, ddp);
  const auto optimizer = make_optimizer(o.optimizer, model->named_parameters());
  const auto ema = make_ema(o.optimizer, model->named_parameters());
  Generator rng(o.seed + 1 + static_cast<uint64_t>(rank));
  const auto batch_fn = [&model](double smoothing) -> BatchFn {
    return [&model, smoothing](const Batch& batch) {
      const Variable logits = model->forward(Variable(batch.inputs));
      return BatchResult{cross_entropy(logits, batch.targets, {.label_smoothing = smoothing}),
                         count_correct(logits.data(), batch.targets), batch.size()};
    };
  };
  Trainer trainer(
      {.model = *model,
       .ddp = ddp,
       .group = group,
       .optimizer = *optimizer,
       .schedule = make_schedule(o.optimizer, o.epochs * steps_per_epoch, steps_per_epoch),
       .train_data = train_data,
       .test_data = test_data,
       .train_batch = batch_fn(o.label_smoothing),
       .test_batch = batch_fn(0),
       .rng = rng,
       .timeline = timeline,
       .comm_hook = hook.get(),
       .ema = ema.get(),
       .run_dir = run_dir.get(),
       .step_log_dir = o.output_dir,
       .console = console},
      {.epochs = o.epochs,
       .grad_accum_steps = o.grad_accum_steps,
       .clip_grad_norm =
           o.optimizer.clip_grad_norm.value_or(std::numeric_limits<double>::infinity()),
       .log_interval = o.log_interval,
       .checkpoint_every = o.checkpoint_every,
       .check_replicas_every = o.check_replicas_every,
       .traits = traits(o, world),
       .class_names = train_set->class_names()});

  int64_t parameters = 0;
  for (const NamedParameter& p : model->named_parameters())
    parameters += p.parameter.data().numel();
  progress.say(str(o.model, ", ", parameters, " parameters in ", ddp.plan().buckets.size(),
                   ddp.plan().buckets.size() == 1 ? " bucket; " : " buckets; ", o.data.dataset,
                   ", ", train_set->size(), " training and ", test_set->size(), " test images"));
  const std::string network = describe(place);
  progress.say(str(
      world, world == 1 ? " process" : " processes", " (", group.backend(),
      network.empty() ? "" : ", " + network, ") x ", threads, threads == 1 ? " thread" : " threads",
      "; global batch ", o.batch_size * world * o.grad_accum_steps, " = ", world, " x ",
      o.batch_size, o.grad_accum_steps > 1 ? str(" x ", o.grad_accum_steps, " accumulated") : "",
      "; gradients ", o.ddp.mode, hook == nullptr ? "" : ", by the hook " + o.ddp.comm_hook));

  for (const std::string& warning : fault_warnings(o.faults)) progress.say(warning);
  if (!weights.empty()) progress.say(weights);
  if (!from.empty()) {
    const BucketPlan given = ddp.plan();
    trainer.resume(from);
    check(o.ddp.bucket_plan.empty() || ddp.plan() == given, "resume ", from,
          ": wanted the checkpoint's bucket plan, got another one in ", o.ddp.bucket_plan,
          "; use the same, or start afresh in another --output-dir");
    for (size_t i = 0; i < optimizer->group_count(); ++i) {
      // The checkpoint's rate would win over --lr without a word.
      optimizer->set_lr(o.optimizer.lr_in_force(), i);
    }
    progress.say(str("resumed from ", from, " at step ", trainer.position().step));
  }
  if (run_dir != nullptr) {
    write_run_info(run_dir->file("run.json"),
                   {.program = "train_resnet",
                    .arguments = o.arguments,
                    .settings = o.settings,
                    .seed = o.seed,
                    .world_size = world,
                    .threads = threads,
                    .resumed_step = from.empty() ? -1 : trainer.position().step,
                    .faults = fault_warnings(o.faults)});
  }

  const TrainResult result = trainer.run();
  progress.say("\n" + trainer.step_times().table());
  const std::string skipped = skipped_images(o.data, data, group);
  if (!skipped.empty()) progress.say(skipped);
  progress.say(str("test accuracy ", format_percent(result.test_accuracy), " in the last epoch, ",
                   format_percent(result.best_accuracy), " at best"));
}

}  // namespace lockstep::train_resnet
