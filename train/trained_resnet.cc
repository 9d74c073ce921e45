#include "lockstep/train/trained_resnet.h"

#include "lockstep/base/error.h"
#include "lockstep/io/safetensors.h"
#include "lockstep/models/resnet_exchange.h"

#include <algorithm>

namespace lockstep {
namespace {

/// "7 x 7 x 3" of the first convolution, [out, kh, kw, in], and the classes tell the options.
ResNetOptions options_of(const std::string& path, const Shape& stem, const Shape& head) {
  if (head.ndim() != 2 || stem.ndim() != 4) {
    throw IoError(str(path, ": wanted the weights of a ResNet, got fc.weight ", head,
                      " and conv1.weight ", stem));
  }
  return {.classes = head[0],
          .in_channels = stem[3],
          .stem = stem[1] == 7 ? ResNetStem::kImageNet : ResNetStem::kCifar};
}

std::unique_ptr<ResNet> make(const std::string& name, const ResNetOptions& options,
                             TrainedResNet& to) {
  Generator rng(0);
  to.name = name;
  to.classes = options.classes;
  to.in_channels = options.in_channels;
  return make_resnet(name, options, rng);
}

Shape shape_of(const TensorFileHeader& header, const std::string& name, const std::string& path) {
  for (const TensorEntry& entry : header.tensors) {
    if (entry.name == name) return entry.shape;
  }
  throw IoError(str(path, ": wanted the weights of a ResNet, got a file without ", name));
}

void load_checkpoint(const TrainedOptions& options, TrainedResNet& to) {
  const TensorFileHeader header = read_safetensors_header(to.path);
  Checkpoint checkpoint = read_checkpoint_header(to.path);
  to.traits = std::move(checkpoint.traits);
  to.class_names = std::move(checkpoint.class_names);
  const std::string* trait = to.trait("--model");
  const std::string name = !options.name.empty() ? options.name : trait != nullptr ? *trait : "";
  if (!name.starts_with("resnet")) {
    throw IoError(
        str(to.path, ": wanted a checkpoint of train_resnet, got one of another program"));
  }
  to.model = make(name,
                  options_of(to.path, shape_of(header, "conv1.weight", to.path),
                             shape_of(header, "fc.weight", to.path)),
                  to);
  checkpoint = read_checkpoint(to.path);
  to.averaged = options.averages && !checkpoint.ema.empty();
  if (to.averaged) take_averages(checkpoint);
  // It matters in training alone.
  std::erase_if(checkpoint.model,
                [](const NamedTensor& t) { return t.name.starts_with("layer_drop."); });
  to.model->load_state_dict(checkpoint.model);
}

void load_torchvision(const TrainedOptions& options, TrainedResNet& to) {
  if (options.name.empty()) {
    throw ArgumentError(str(to.path,
                            ": is no checkpoint of train_resnet; weights in torchvision's ",
                            "format want --model, such as resnet18"));
  }
  const TensorFileHeader header = read_safetensors_header(to.path);
  const Shape stem = shape_of(header, "conv1.weight", to.path);  // [out, in, kh, kw] there
  const Shape here = stem.ndim() == 4 ? Shape{stem[0], stem[2], stem[3], stem[1]} : stem;
  to.model =
      make(options.name, options_of(to.path, here, shape_of(header, "fc.weight", to.path)), to);
  import_resnet(*to.model, to.path);
}

}  // namespace

const std::string* TrainedResNet::trait(const std::string& wanted) const {
  const auto found = std::find_if(traits.begin(), traits.end(),
                                  [&](const RunTrait& known) { return known.name == wanted; });
  return found == traits.end() ? nullptr : &found->value;
}

TrainedResNet load_trained_resnet(const std::string& path, const TrainedOptions& options) {
  TrainedResNet trained;
  trained.path = path;
  if (is_checkpoint(read_safetensors_header(path).metadata)) {
    load_checkpoint(options, trained);
  } else {
    load_torchvision(options, trained);
  }
  trained.model->eval();
  return trained;
}

}  // namespace lockstep
