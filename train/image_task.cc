#include "lockstep/train/image_task.h"

#include "lockstep/base/error.h"
#include "lockstep/distributed/reduce/layer_plan.h"
#include "lockstep/tensor/random.h"

#include <string_view>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

// The stem for ImageNet would leave nothing of these.
constexpr int64_t kLargestSmallImage = 64;

/// "layer1.0.conv2.weight" -> "layer1.0"; the stem and the classifier are one layer each.
std::string block_of(std::string_view parameter) {
  if (!parameter.starts_with("layer")) return parameter.starts_with("fc") ? "fc" : "stem";
  return std::string(parameter.substr(0, parameter.find('.', parameter.find('.') + 1)));
}

}  // namespace

std::unique_ptr<ResNet> make_model(const ImageTask& task) {
  Generator init(task.seed);
  ResNetOptions options{.classes = task.classes,
                        .in_channels = task.channels,
                        .layer_drop = task.layer_drop,
                        .layer_drop_seed = task.seed};
  if (task.image_size <= kLargestSmallImage) options.stem = ResNetStem::kCifar;
  return make_resnet(task.model, options, init);
}

Batch synthetic_batch(const ImageTask& task, int64_t samples, uint64_t number) {
  check(samples >= 1 && task.image_size >= 1, "synthetic_batch: wanted at least 1 sample of 1 ",
        "pixel, got ", samples, " of ", task.image_size);
  // The bits of a stream apart from every other (task, number).
  const auto mixed = philox4x32(task.seed, number);
  Generator rng(uint64_t{mixed[0]} << 32 | mixed[1]);
  const Shape shape{samples, task.image_size, task.image_size, task.channels};
  const PhiloxRange pixels = rng.take(shape.numel()), classes = rng.take(samples);
  std::vector<float> values;
  for (int64_t i = 0; i < shape.numel(); ++i) values.push_back(2 * pixels.uniform(i) - 1);
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < samples; ++i) labels.push_back(classes.bits(i) % task.classes);
  return {Tensor::from(values, shape), Tensor::from(labels, {samples})};
}

DdpOptions with_layer_drop(DdpOptions ddp, double layer_drop) {
  if (layer_drop == 0) return ddp;
  ddp.find_unused_parameters = ddp.skip_unused_buckets = true;
  ddp.planner = plan_by_layer(block_of);
  ddp.replan = false;  // in the first step, too, blocks may be missing
  return ddp;
}

}  // namespace lockstep
