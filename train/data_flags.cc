#include "lockstep/train/data_flags.h"

#include "lockstep/base/error.h"
#include "lockstep/data/augment.h"
#include "lockstep/train/command_line.h"

#include <CLI/CLI.hpp>

namespace lockstep {
namespace {

constexpr int kMostWorkers = 256;  // as DataLoader

}  // namespace

void add_data_flags(CLI::App& app, DataFlags& flags) {
  app.add_option("--dataset", flags.dataset, "What to train on")
      ->check(CLI::IsMember(dataset_names()));
  app.add_option("--data-dir", flags.data_dir,
                 "Where the files are; digits and synthetic have none, fashion-mnist has a default")
      ->check(not_empty());
  app.add_flag("--augment", flags.augment, "Random crops and, but for digits, flips");
  app.add_option("--workers", flags.workers, "Threads that prepare batches; 0: none")
      ->check(within(0, kMostWorkers, str("a number from 0 to ", kMostWorkers)));
}

std::string wrong_data_flags(const DataFlags& flags) {
  const std::string wanted = wanted_directory(flags.dataset);
  if (flags.data_dir.empty() && !wanted.empty()) {
    return "--dataset " + flags.dataset + " wants a --data-dir with " + wanted;
  }
  return "";
}

TrainingData open_data(const DataFlags& flags, uint64_t) {
  TrainingData data{open_dataset(flags.dataset, flags.data_dir, Split::kTrain),
                    open_dataset(flags.dataset, flags.data_dir, Split::kTest)};
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

ImageTransform data_transform(const DataFlags& flags, uint64_t seed) {
  if (!flags.augment) return nullptr;
  const bool digits = flags.dataset == "digits" || flags.dataset == "mnist";
  return augment({.padding = digits ? 1 : 4, .flip = !digits, .seed = seed});
}

std::vector<RunTrait> data_traits(const DataFlags& flags) {
  return {{"--dataset", flags.dataset}, {"--augment", flags.augment ? "on" : "off"}};
}

}  // namespace lockstep
