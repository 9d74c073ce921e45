#include "run.h"

#include "lockstep/base/error.h"
#include "lockstep/distributed/sync_batch_norm.h"
#include "lockstep/models/resnet_exchange.h"
#include "lockstep/train/image_batch.h"
#include "lockstep/train/image_task.h"
#include "lockstep/train/training_run.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace lockstep::train_resnet {
namespace {

DistributedSampler sampler(const Options& o, const Dataset& data, bool train, int rank, int world) {
  return DistributedSampler(
      {.size = data.size(),
       .batch_size = train ? o.trainer.batch_size : o.trainer.eval_batch_size,
       .rank = rank,
       .world_size = world,
       .seed = o.trainer.seed,
       .shuffle = train,
       .last_batch = train ? last_batch_of(o.trainer.uneven) : LastBatch::kKeep});
}

std::vector<RunTrait> traits(const Options& o, int world) {
  std::vector<RunTrait> all = {{"--model", o.model}};
  for (RunTrait& trait : trainer_traits(o.trainer, world)) all.push_back(std::move(trait));
  for (RunTrait& trait : data_traits(o.data)) all.push_back(std::move(trait));
  all.push_back({"--sync-bn", o.sync_bn ? "on" : "off"});
  all.push_back({"--layer-drop", str(o.layer_drop)});
  return all;
}

std::unique_ptr<ResNet> make_model(const Options& o, const Dataset& data) {
  const ImageFormat format = data.format();
  return lockstep::make_model({.model = o.model,
                               .image_size = std::max(format.height, format.width),
                               .channels = format.channels,
                               .classes = data.classes(),
                               .layer_drop = o.layer_drop,
                               .seed = o.trainer.seed});
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

}  // namespace

void preflight(const Options& o, int world) {
  preflight_flags(o.trainer, world);
  check_plan_file(o.plans);
  const TrainingData data = open_data(o.data, o.trainer.seed, /*warn=*/false);
  sampler(o, *data.train, true, 0, world);
  sampler(o, *data.test, false, 0, world);
  const auto model = [&] { return make_model(o, *data.train); };
  const bool resumes = preflight_files(o.trainer, world, traits(o, world),
                                       [&] { return model()->named_parameters(); });
  if (!resumes && !o.init_weights.empty()) load_init_weights(o, *model());
}

void run(const Options& o, ProcessGroup& group, const RankPlace& place) {
  const int rank = group.rank(), world = group.size();
  const uint64_t seed = o.trainer.seed;
  TrainingRun run("train_resnet", o.trainer, group, place);
  const TrainingData data = open_data(o.data, seed, /*warn=*/rank == 0);
  const auto& [train_set, test_set] = data;
  DataLoader train_data(train_set, sampler(o, *train_set, true, run.data_rank(), world),
                        {.workers = o.data.workers, .transform = data_transform(o.data, seed)});
  DataLoader test_data(test_set, sampler(o, *test_set, false, rank, world),
                       {.workers = o.data.workers});
  run.open();

  KeptPlans plans(o.plans, group);
  const auto model = make_model(o, *train_set);
  if (!o.init_weights.empty()) {
    run.init_weights("--init-weights", [&] { return load_init_weights(o, *model); });
  }
  run.wrap(*model, [&](DdpOptions ddp) { return with_layer_drop(std::move(ddp), o.layer_drop); });
  if (o.sync_bn) use_sync_batch_norm(*model, group);
  const auto batch_fn = [&](double smoothing) -> BatchFn {
    return [&, smoothing](const Batch& loaded) {
      plans.look();
      const Batch batch = to_device(loaded, run.device());
      return image_result(model->forward(Variable(batch.inputs)), batch.targets,
                          {.label_smoothing = smoothing});
    };
  };
  ImageBatches train_batches(train_data, batch_fn(o.label_smoothing), joins(o.trainer.uneven));
  ImageBatches test_batches(test_data, batch_fn(0));
  Generator rng(seed + 1 + static_cast<uint64_t>(rank));
  const TrainResult result =
      run.train({.train_data = train_batches,
                 .test_data = test_batches,
                 .rng = rng,
                 .description = o.model,
                 .data = str(o.data.dataset, ", ", train_set->size(), " training and ",
                             test_set->size(), " test images"),
                 .traits = traits(o, world),
                 .class_names = train_set->class_names()});
  const std::string skipped = skipped_images(o.data, data, group);
  if (!skipped.empty()) run.say(skipped);
  if (!plans.summary().empty()) run.say(plans.summary());
  run.say(str("test accuracy ", format_percent(result.test_accuracy), " in the last epoch, ",
              format_percent(result.best_accuracy), " at best"));
}

}  // namespace lockstep::train_resnet
