#include "lockstep/train/predict.h"

#include "lockstep/autograd/variable.h"
#include "lockstep/base/error.h"
#include "lockstep/data/image/decode.h"
#include "lockstep/data/image/view.h"
#include "lockstep/io/file.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/train/data_flags.h"
#include "lockstep/train/most_likely.h"
#include "lockstep/train/trained_resnet.h"

#include <CLI/CLI.hpp>

#include <cstdio>

namespace lockstep {
namespace {

constexpr uint64_t kMostFileBytes = uint64_t{1} << 30;

/// How the run's evaluation prepared its images.
ImageView view_of(const DataFlags& flags, const TrainedResNet& trained) {
  if (trained.trait("--image-size") == nullptr) {
    throw IoError(str("predict: ", trained.path,
                      ": wanted a checkpoint of train_resnet on images of ",
                      "--dataset folder or packed, got one without --image-size"));
  }
  return ImageView(evaluation_view(flags));
}

/// The checkpoint's; what `--data-dir` holds, where that is given; else their numbers.
std::vector<std::string> class_names(const PredictFlags& flags, DataFlags data,
                                     const TrainedResNet& trained) {
  std::vector<std::string> names = trained.class_names;
  if (!flags.data_dir.empty()) {
    data.data_dir = flags.data_dir;
    names = open_data(data, 0, /*warn=*/false).train->class_names();
  }
  if (names.empty()) {
    for (int64_t i = 0; i < trained.classes; ++i) names.push_back(str("class ", i));
  }
  if (static_cast<int64_t>(names.size()) != trained.classes) {
    throw IoError(str("predict: ", flags.data_dir.empty() ? trained.path : flags.data_dir,
                      ": wanted the ", trained.classes, " classes of the checkpoint, got ",
                      names.size()));
  }
  return names;
}

}  // namespace

void add_predict_flags(CLI::App& app, const std::string& command, PredictFlags& flags) {
  app.footer("Example: " + command +
             " runs/pets/best.safetensors a.jpg b.png\n"
             "Images are prepared as the run's evaluation did. Exit code 1 when one cannot be "
             "decoded.");
  app.add_option("checkpoint", flags.checkpoint,
                 "A checkpoint of train_resnet --dataset folder or packed")
      ->required();
  app.add_option("images", flags.images, "JPEG and PNG files")->required();
  app.add_option("--data-dir", flags.data_dir,
                 "Take the names of the classes from here; not given: from the checkpoint");
  app.add_option("--top", flags.top, "The most likely classes to show")
      ->check(CLI::Range(1, 1000000));
  add_device_flag(app, flags.device);
}

int predict(const PredictFlags& flags, const char* program) {
  const std::string wrong = wrong_device_flags(flags.device);
  if (!wrong.empty()) throw ArgumentError(wrong);
  const Device device = use_device(flags.device);
  const TrainedResNet trained = load_trained_resnet(flags.checkpoint);
  DataFlags data;
  data.dataset.clear();
  take_data_traits(trained.traits, flags.checkpoint, data);
  const ImageView view = view_of(data, trained);
  const std::vector<std::string> names = class_names(flags, data, trained);
  const int64_t size = view.options().size;
  trained.model->to(device);

  const NoGrad no_grad;
  int code = 0;
  for (const std::string& path : flags.images) {
    Tensor input = Tensor::empty({1, size, size, 3}, DType::kF32);
    Image image;
    try {
      decode_image(read_file(path, kMostFileBytes), path, {}, image);
    } catch (const IoError& error) {  // the others may be well
      std::fprintf(stderr, "%s: %s\n", program, error.what());
      code = 1;
      continue;
    }
    view.evaluation(image, {input.mutable_data<float>(), static_cast<size_t>(input.numel())});
    std::printf("%s\n", path.c_str());
    print_most_likely((*trained.model)(Variable(ops::to_device(input, device))).data(), flags.top,
                      [&](int64_t i) { return names[static_cast<size_t>(i)]; });
  }
  return code;
}

}  // namespace lockstep
