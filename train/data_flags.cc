#include "lockstep/train/data_flags.h"

#include "lockstep/base/error.h"
#include "lockstep/data/augment.h"
#include "lockstep/data/open_dataset.h"
#include "lockstep/train/command_line.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>

namespace lockstep {
namespace {

constexpr int kMostWorkers = 256;       // as DataLoader
constexpr double kMostSize = 1 << 14;   // as ImageView
constexpr double kMostPixels = 0x1p40;  // far from overflow

std::string list(const std::vector<double>& values) {
  std::string text;
  for (const double value : values) text += str(text.empty() ? "" : ",", value);
  return text.empty() ? "default" : text;
}

void fill(const std::vector<double>& from, std::array<float, 3>& to) {
  for (size_t i = 0; i < from.size() && i < to.size(); ++i) to[i] = static_cast<float>(from[i]);
}

ImageDatasetOptions image_options(const DataFlags& flags, uint64_t seed) {
  ImageDatasetOptions options;
  ImageViewOptions& view = options.view;
  view.size = flags.image_size.value_or(view.size);
  view.resize = flags.resize_size.value_or(0);
  view.augment = flags.augment;
  view.least_area = flags.least_crop_area.value_or(view.least_area);
  view.seed = seed;
  std::array<float, 4> jitter{};
  for (size_t i = 0; i < flags.color_jitter.size() && i < jitter.size(); ++i)
    jitter[i] = static_cast<float>(flags.color_jitter[i]);
  view.jitter = {jitter[0], jitter[1], jitter[2], jitter[3]};
  fill(flags.mean, view.mean);
  fill(flags.deviation, view.deviation);
  options.decode.max_pixels = flags.max_image_pixels;
  options.bad_images = flags.bad_images == "skip" ? BadImages::kSkip : BadImages::kFatal;
  return options;
}

/// How many samples of `data` any rank has skipped.
int64_t count_skipped(const Dataset& data, ProcessGroup& group) {
  Tensor marks = Tensor::zeros({data.size()}, DType::kF32);
  float* mark = marks.mutable_data<float>();
  for (const int64_t index : data.skipped()) mark[index] = 1;
  group.all_reduce(marks, ReduceOp::kMax)->wait();
  const float* all = marks.data<float>();
  return std::count(all, all + data.size(), 1.0f);
}

}  // namespace

void add_data_flags(CLI::App& app, DataFlags& flags) {
  app.add_option("--dataset", flags.dataset, "The images")->check(CLI::IsMember(dataset_names()));
  app.add_option("--data-dir", flags.data_dir,
                 "Where the files are; digits and synthetic have none, fashion-mnist has a default")
      ->check(not_empty());
  app.add_flag("--augment", flags.augment, "Random crops and, but for digits, flips");
  app.add_option("--image-size", flags.image_size,
                 str("folder, packed: height and width of what the model sees; not given: ",
                     ImageViewOptions().size))
      ->check(within(1, kMostSize, "a number from 1 to 16384"));
  app.add_option("--resize-size", flags.resize_size,
                 "folder, packed: the shorter side before the centre crop, when not augmented; not "
                 "given: 256/224 of --image-size")
      ->check(within(1, 2 * kMostSize, "a number from 1 to 32768"));
  app.add_option("--val-fraction", flags.val_fraction,
                 "folder: the share of images for evaluation, where there is no train/ and val/")
      ->check(within(0, 1, "a share from 0 to 1"));
  app.add_option(
         "--least-crop-area", flags.least_crop_area,
         str("folder, packed: the least share of an image that --augment cuts out; not given: ",
             ImageViewOptions().least_area))
      ->check(within(1e-6, 1, "a share from 10^-6 to 1"));
  const auto list_of = [&](const char* name, std::vector<double>& values, int least, int most,
                           const char* what) {
    app.add_option(name, values, what)
        ->delimiter(',')
        ->expected(least, most)
        ->check(within(0, 1e6, "a value from 0 to 10^6"));
  };
  list_of("--color-jitter", flags.color_jitter, 1, 4,
          "folder, packed: with --augment, the largest changes of brightness, contrast, saturation "
          "and hue, as 0.4,0.4,0.4,0.1");
  list_of("--mean", flags.mean, 3, 3,
          "folder, packed: mean of red, green and blue in [0, 1]; not given: ImageNet's");
  list_of("--std", flags.deviation, 3, 3, "The same for the standard deviation");
  app.add_option("--bad-images", flags.bad_images,
                 "folder, packed: an image that cannot be decoded is fatal, or is named and skip "
                 "takes the next one instead")
      ->check(CLI::IsMember({"fatal", "skip"}));
  app.add_option("--max-image-pixels", flags.max_image_pixels,
                 "folder, packed: images of more pixels are bad")
      ->check(within(1, kMostPixels, "a number from 1 to 2^40"));
  app.add_option("--workers", flags.workers, "Threads that prepare batches; 0: none")
      ->check(within(0, kMostWorkers, str("a number from 0 to ", kMostWorkers)));
}

std::string wrong_data_flags(const DataFlags& flags) {
  const std::string wanted = wanted_directory(flags.dataset);
  if (flags.data_dir.empty() && !wanted.empty()) {
    return "--dataset " + flags.dataset + " wants a --data-dir with " + wanted;
  }
  const std::pair<const char*, bool> of_images[] = {
      {"--image-size", flags.image_size.has_value()},
      {"--resize-size", flags.resize_size.has_value()},
      {"--least-crop-area", flags.least_crop_area.has_value()},
      {"--color-jitter", !flags.color_jitter.empty()},
      {"--mean", !flags.mean.empty()},
      {"--std", !flags.deviation.empty()}};
  for (const auto& [name, given] : of_images) {
    if (given && !takes_image_options(flags.dataset))
      return str(name, " is for --dataset folder and packed");
  }
  if (flags.val_fraction && flags.dataset != "folder")
    return "--val-fraction is for --dataset folder";
  if (!flags.augment && (flags.least_crop_area || !flags.color_jitter.empty()))
    return "--least-crop-area and --color-jitter want --augment";
  if (std::count(flags.deviation.begin(), flags.deviation.end(), 0.0) > 0)
    return "--std wants values above 0";
  const int64_t size = flags.image_size.value_or(ImageViewOptions().size);
  if (flags.resize_size.value_or(size) < size)
    return str("--resize-size wants at least the --image-size, ", size);
  if (flags.color_jitter.size() == 4 && flags.color_jitter[3] > 0.5)
    return "--color-jitter wants a hue of at most 0.5";
  return "";
}

TrainingData open_data(const DataFlags& flags, uint64_t seed, bool warn) {
  const OpenOptions options{.images = image_options(flags, seed),
                            .val_fraction = flags.val_fraction.value_or(0),
                            .warn = warn};
  TrainingData data{open_dataset(flags.dataset, flags.data_dir, Split::kTrain, options),
                    open_dataset(flags.dataset, flags.data_dir, Split::kTest, options)};
  const ImageFormat a = data.train->format(), b = data.test->format();
  if (a.height != b.height || a.width != b.width || a.channels != b.channels) {
    throw IoError(str(flags.dataset, ": wanted training and test images of one size, got ",
                      a.height, " x ", a.width, " and ", b.height, " x ", b.width));
  }
  if (data.train->classes() != data.test->classes()) {
    throw IoError(str(flags.dataset, ": wanted training and test images of the same classes, got ",
                      data.train->classes(), " and ", data.test->classes()));
  }
  return data;
}

std::shared_ptr<const Dataset> open_test_data(const DataFlags& flags) {
  return open_dataset(
      flags.dataset, flags.data_dir, Split::kTest,
      {.images = image_options(flags, 0), .val_fraction = flags.val_fraction.value_or(0)});
}

ImageViewOptions evaluation_view(const DataFlags& flags) {
  ImageViewOptions view = image_options(flags, 0).view;
  view.augment = false;
  return view;
}

ImageTransform data_transform(const DataFlags& flags, uint64_t seed) {
  if (!flags.augment || takes_image_options(flags.dataset)) return nullptr;
  const bool digits = flags.dataset == "digits" || flags.dataset == "mnist";
  return augment({.padding = digits ? 1 : 4, .flip = !digits, .seed = seed});
}

std::vector<RunTrait> data_traits(const DataFlags& flags) {
  std::vector<RunTrait> traits = {{"--dataset", flags.dataset},
                                  {"--augment", flags.augment ? "on" : "off"}};
  if (!takes_image_options(flags.dataset)) return traits;
  const ImageViewOptions view = ImageView(image_options(flags, 0).view).options();
  traits.push_back({"--image-size", str(view.size)});
  traits.push_back({"--resize-size", str(view.resize)});
  traits.push_back({"--val-fraction", str(flags.val_fraction.value_or(0))});
  traits.push_back({"--least-crop-area", str(view.least_area)});
  traits.push_back({"--color-jitter", list(flags.color_jitter)});
  traits.push_back({"--mean", list(flags.mean)});
  traits.push_back({"--std", list(flags.deviation)});
  return traits;
}

std::string skipped_images(const DataFlags& flags, const TrainingData& data, ProcessGroup& group) {
  if (flags.bad_images != "skip" || !takes_image_options(flags.dataset)) return "";
  const int64_t train = count_skipped(*data.train, group), test = count_skipped(*data.test, group);
  if (train + test == 0) return "";
  return str("skipped ", train, " of ", data.train->size(), " training and ", test, " of ",
             data.test->size(), " test images that cannot be decoded; their neighbours were taken");
}

}  // namespace lockstep
