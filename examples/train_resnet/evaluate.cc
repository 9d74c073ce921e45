#include "evaluate.h"

#include "run.h"

#include "lockstep/autograd/autocast.h"
#include "lockstep/base/error.h"
#include "lockstep/io/safetensors.h"
#include "lockstep/train/evaluate.h"
#include "lockstep/train/image_batch.h"
#include "lockstep/train/progress.h"
#include "lockstep/train/threads.h"
#include "lockstep/train/trained_resnet.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace lockstep::train_resnet {
namespace {

/// The flags, and for what they leave out the checkpoint's traits.
DataFlags data_flags(const Options& o, const std::vector<RunTrait>& traits) {
  DataFlags flags = o.evaluation.data;
  take_data_traits(traits, o.evaluation.checkpoint, flags);
  if (flags.dataset.empty()) {
    throw ArgumentError(
        str(o.evaluation.checkpoint, ": notes no data set; --dataset says which to evaluate on"));
  }
  const std::string wrong = wrong_data_flags(flags);
  if (!wrong.empty()) throw ArgumentError(wrong);
  return flags;
}

void check_fits(const TrainedResNet& trained, const DataFlags& flags, const Dataset& data) {
  if (data.classes() != trained.classes || data.format().channels != trained.in_channels) {
    throw IoError(str(flags.dataset, ": wanted images of ", trained.in_channels, " channels in ",
                      trained.classes, " classes, as the model of ", trained.path, ", got ",
                      data.format().channels, " channels and ", data.classes(), " classes"));
  }
  const std::vector<std::string> names = data.class_names();
  if (names.empty() || trained.class_names.empty()) return;
  constexpr const char* kReplacement = "\xef\xbf\xbd";  // of what was no UTF-8
  for (size_t i = 0; i < std::min(names.size(), trained.class_names.size()); ++i) {
    const std::string& wanted = trained.class_names[i];
    if (names[i] == wanted || wanted.find(kReplacement) != wanted.npos) continue;
    throw IoError(str(flags.dataset, ": wanted class ", i, " to be ", wanted, ", as in ",
                      trained.path, ", got ", names[i]));
  }
}

}  // namespace

void preflight_evaluation(const Options& o) {
  const TensorFileHeader header = read_safetensors_header(o.evaluation.checkpoint);
  std::vector<RunTrait> traits;
  if (is_checkpoint(header.metadata)) {
    traits = read_checkpoint_header(o.evaluation.checkpoint).traits;
  }
  open_test_data(data_flags(o, traits));
  device_of(o.trainer.device);
}

void evaluate_checkpoint(const Options& o, ProcessGroup& group, const RankPlace& place) {
  set_threads(o.trainer.threads, place);
  const Device device = use_device(o.trainer.device);
  const TrainedResNet trained = load_trained_resnet(
      o.evaluation.checkpoint, {.name = o.evaluation.model, .averages = !o.evaluation.raw_weights});
  const DataFlags flags = data_flags(o, trained.traits);
  const auto data = open_test_data(flags);
  check_fits(trained, flags, *data);
  DataLoader loader(data,
                    DistributedSampler({.size = data->size(),
                                        .batch_size = o.trainer.eval_batch_size,
                                        .rank = group.rank(),
                                        .world_size = group.size(),
                                        .shuffle = false,
                                        .last_batch = LastBatch::kKeep}),
                    {.workers = flags.workers});
  trained.model->to(device);
  const auto batch_fn = [&trained, device](const Batch& loaded) {
    const Batch batch = to_device(loaded, device);
    return image_result(trained.model->forward(Variable(batch.inputs)), batch.targets);
  };
  ImageBatches batches(loader, batch_fn);
  const Autocast precision(precision_of(amp_of(trained.traits)));  // as in the run
  const Meter::Result result = evaluate(*trained.model, batches, group);
  if (!std::isfinite(result.loss)) {
    throw Error(str("evaluate ", trained.path,
                    ": the loss on the test images is not a finite number: the "
                    "weights are not finite, or too large; evaluate an earlier checkpoint"));
  }
  if (group.rank() != 0) return;
  std::printf("%s: %s%s; %s\n", trained.path.c_str(), trained.name.c_str(),
              trained.averaged ? ", averaged weights" : "", flags.dataset.c_str());
  std::printf("%s\n", str("test accuracy ", format_percent(result.accuracy), ", test loss ",
                          result.loss, ", ", result.counted, " samples")
                          .c_str());
}

}  // namespace lockstep::train_resnet
