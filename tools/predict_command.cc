#include "lockstep/autograd/variable.h"
#include "lockstep/base/error.h"
#include "lockstep/data/image/decode.h"
#include "lockstep/data/image/view.h"
#include "lockstep/io/file.h"
#include "lockstep/models/resnet.h"
#include "lockstep/train/checkpoint.h"
#include "lockstep/train/data_flags.h"

#include "command.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <sstream>
#include <string>
#include <vector>

namespace lockstep::tools {
namespace {

constexpr uint64_t kMostFileBytes = uint64_t{1} << 30;

struct Arguments {
  std::string checkpoint, data_dir;
  std::vector<std::string> images;
  int64_t top = 5;
};

/// What a checkpoint notes of its run.
class Traits {
 public:
  Traits(const std::string& path, const Checkpoint& checkpoint)
      : path_(path), all_(checkpoint.traits) {}

  std::string text(const std::string& name) const {
    for (const RunTrait& trait : all_) {
      if (trait.name == name) return trait.value;
    }
    throw IoError(str("predict: ", path_, ": wanted a checkpoint of train_resnet on images of ",
                      "--dataset folder or packed, got one without ", name));
  }
  double number(const std::string& name) const { return parsed(name, text(name)); }
  /// "0.5,0.5,0.5"; "default" leaves `values` as they are.
  void triple(const std::string& name, std::array<float, 3>& values) const {
    const std::string list = text(name);
    if (list == "default") return;
    std::istringstream parts(list);
    std::string part;
    for (float& value : values) {
      std::getline(parts, part, ',');
      value = static_cast<float>(parsed(name, part));
    }
  }

 private:
  double parsed(const std::string& name, const std::string& value) const {
    char* end = nullptr;
    const double number = std::strtod(value.c_str(), &end);
    if (value.empty() || *end != '\0' || !(std::abs(number) < 1e6)) {
      throw IoError(str("predict: ", path_, ": ", name, ": wanted a number, got ", value));
    }
    return number;
  }

  const std::string& path_;
  const std::vector<RunTrait>& all_;
};

std::unique_ptr<ResNet> load_model(const Arguments& arguments, Checkpoint& checkpoint) {
  const std::string& path = arguments.checkpoint;
  // It matters in training alone.
  std::erase_if(checkpoint.model,
                [](const NamedTensor& t) { return t.name.starts_with("layer_drop."); });
  const TensorFile state{checkpoint.model, {}, path};
  const Tensor &head = state.at("fc.weight"), &stem = state.at("conv1.weight");
  if (head.ndim() != 2 || stem.ndim() != 4) {
    throw IoError(str(path, ": wanted the weights of a ResNet, got fc.weight ", head.shape(),
                      " and conv1.weight ", stem.shape()));
  }
  Generator rng(0);
  const ResNetOptions options{
      .classes = head.dim(0),
      .in_channels = stem.dim(3),
      .stem = stem.dim(1) == 7 ? ResNetStem::kImageNet : ResNetStem::kCifar};
  auto model = make_resnet(Traits(path, checkpoint).text("--model"), options, rng);
  model->load_state_dict(checkpoint.model);
  model->eval();
  return model;
}

/// The numbers themselves without --data-dir.
std::vector<std::string> class_names(const Arguments& arguments, const Traits& traits,
                                     int64_t classes) {
  std::vector<std::string> names;
  if (arguments.data_dir.empty()) {
    for (int64_t i = 0; i < classes; ++i) names.push_back(str("class ", i));
    return names;
  }
  DataFlags flags;
  flags.dataset = traits.text("--dataset");
  flags.data_dir = arguments.data_dir;
  const double fraction = traits.number("--val-fraction");
  if (fraction > 0) flags.val_fraction = fraction;
  names = open_data(flags, 0, /*warn=*/false).train->class_names();
  if (static_cast<int64_t>(names.size()) != classes) {
    throw IoError(str("predict: ", arguments.data_dir, ": wanted the ", classes,
                      " classes of the checkpoint, got ", names.size()));
  }
  return names;
}

void print_best(const Tensor& logits, const std::vector<std::string>& names, int64_t top) {
  const std::vector<float> values = logits.to_vector<float>();
  const double most = *std::max_element(values.begin(), values.end());
  double sum = 0;
  for (const float value : values) sum += std::exp(value - most);
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return values[a] > values[b]; });
  order.resize(std::min(order.size(), static_cast<size_t>(top)));
  for (const size_t i : order) {
    std::printf("  %6.2f %%  %s\n", 100 * std::exp(values[i] - most) / sum, names[i].c_str());
  }
}

int predict(const Arguments& arguments) {
  // Refuses what is none before it is read as a whole.
  const Checkpoint header = read_checkpoint_header(arguments.checkpoint);
  const Traits traits(arguments.checkpoint, header);
  ImageViewOptions options{.size = static_cast<int64_t>(traits.number("--image-size")),
                           .resize = static_cast<int64_t>(traits.number("--resize-size"))};
  traits.triple("--mean", options.mean);
  traits.triple("--std", options.deviation);
  const ImageView view(options);
  Checkpoint checkpoint = read_checkpoint(arguments.checkpoint);
  const auto model = load_model(arguments, checkpoint);
  const auto names =
      class_names(arguments, traits, model->state_dict().back().tensor.numel());  // of fc.bias

  const NoGrad no_grad;
  int code = 0;
  for (const std::string& path : arguments.images) {
    Tensor input = Tensor::empty({1, options.size, options.size, 3}, DType::kF32);
    Image image;
    try {
      decode_image(read_file(path, kMostFileBytes), path, {}, image);
    } catch (const IoError& error) {  // the others may be well
      std::fprintf(stderr, "lockstep: %s\n", error.what());
      code = 1;
      continue;
    }
    view.evaluation(image, {input.mutable_data<float>(), static_cast<size_t>(input.numel())});
    std::printf("%s\n", path.c_str());
    print_best((*model)(Variable(input)).data(), names, arguments.top);
  }
  return code;
}

}  // namespace

Command predict_command(CLI::App& program) {
  CLI::App* app = program.add_subcommand(
      "predict", "Say what a ResNet trained on a folder of images sees in others");
  app->footer(
      "Example: lockstep predict runs/pets/best.safetensors a.jpg b.png --data-dir pets\n"
      "Images are prepared as the run's evaluation did. Exit code 1 when one cannot be decoded.");
  const auto arguments = std::make_shared<Arguments>();
  app->add_option("checkpoint", arguments->checkpoint,
                  "A checkpoint of train_resnet --dataset folder or packed")
      ->required();
  app->add_option("images", arguments->images, "JPEG and PNG files")->required();
  app->add_option("--data-dir", arguments->data_dir,
                  "What it was trained on, for the names of the classes (default: their numbers)");
  app->add_option("--top", arguments->top, "The most likely classes to show (default: 5)")
      ->check(CLI::Range(1, 1000000));
  return {app, [arguments] { return predict(*arguments); }};
}

}  // namespace lockstep::tools
