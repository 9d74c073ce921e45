#include "lockstep/data/open_dataset.h"

#include "lockstep/base/error.h"
#include "lockstep/data/cifar.h"
#include "lockstep/data/image_folder.h"
#include "lockstep/data/pack.h"

namespace lockstep {

const std::vector<std::string>& dataset_names() {
  static const std::vector<std::string> names = {
      "digits", "mnist", "fashion-mnist", "cifar10", "cifar100", "folder", "packed", "synthetic"};
  return names;
}

std::string wanted_directory(const std::string& name) {
  if (name == "mnist") return "its four IDX files";
  if (name == "cifar10") return "data_batch_1.bin to data_batch_5.bin and test_batch.bin";
  if (name == "cifar100") return "train.bin and test.bin";
  if (name == "folder") return "train/CLASS/IMAGE and val/CLASS/IMAGE, or CLASS/IMAGE";
  if (name == "packed") return "the shards that 'lockstep pack' made";
  return "";
}

bool takes_image_options(const std::string& name) { return name == "folder" || name == "packed"; }

std::shared_ptr<const Dataset> open_dataset(const std::string& name, const std::string& directory,
                                            Split split, const OpenOptions& options) {
  const std::string wanted = wanted_directory(name);
  check(wanted.empty() || !directory.empty(), "open_dataset: ", name, " wants the directory of ",
        wanted);
  if (name == "digits") return digits(split);
  if (name == "mnist") return mnist(directory, split);
  if (name == "fashion-mnist") {
    return directory.empty() ? fashion_mnist(split) : fashion_mnist(split, directory);
  }
  if (name == "cifar10") return cifar(CifarKind::k10, directory, split);
  if (name == "cifar100") return cifar(CifarKind::k100, directory, split);
  if (takes_image_options(name)) {
    ImageDatasetOptions images = options.images;
    images.view.augment = images.view.augment && split == Split::kTrain;
    return image_dataset(name == "packed" ? packed_images(directory, split)
                                          : image_folder({.directory = directory,
                                                          .split = split,
                                                          .val_fraction = options.val_fraction,
                                                          .warn = options.warn}),
                         images);
  }
  if (name == "synthetic") return synthetic({.split = split});
  std::string names;
  for (const std::string& known : dataset_names()) names += (names.empty() ? "" : ", ") + known;
  throw ArgumentError(str("open_dataset: wanted one of ", names, "; got ", name));
}

}  // namespace lockstep
