// MNIST and the data sets that come in its files: four IDX arrays under fixed names.
#include "lockstep/base/error.h"
#include "lockstep/data/datasets.h"
#include "lockstep/data/idx.h"
#include "lockstep/data/memory_dataset.h"

#include <filesystem>
#include <utility>

namespace lockstep {
namespace {

std::shared_ptr<const Dataset> open_split(const std::string& directory, Split split,
                                          const Normalisation& normalisation) {
  const std::string stem =
      (std::filesystem::path(directory) / (split == Split::kTrain ? "train" : "t10k")).string();
  IdxArray images = read_idx(stem + "-images-idx3-ubyte");
  IdxArray labels = read_idx(stem + "-labels-idx1-ubyte");
  if (images.dims.size() != 3 || labels.dims.size() != 1) {
    throw IoError(str("read_idx: ", stem,
                      "-*: wanted images of three dimensions and labels of one, got ",
                      images.dims.size(), " and ", labels.dims.size()));
  }
  const ImageFormat format{.height = images.dims[1], .width = images.dims[2], .channels = 1};
  return std::make_shared<MemoryDataset>(stem + "-*", std::move(images.values),
                                         std::move(labels.values), format, 10,
                                         std::vector{normalisation});
}

}  // namespace

std::shared_ptr<const Dataset> mnist(const std::string& directory, Split split) {
  return open_split(directory, split, {.max = 255, .mean = 0.1307f, .deviation = 0.3081f});
}

std::shared_ptr<const Dataset> fashion_mnist(Split split, const std::string& directory) {
  return open_split(directory, split, {.max = 255, .mean = 0.2860f, .deviation = 0.3530f});
}

}  // namespace lockstep
