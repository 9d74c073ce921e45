#include "lockstep/data/memory_dataset.h"

#include "lockstep/base/error.h"

#include <utility>

namespace lockstep {

MemoryDataset::MemoryDataset(const std::string& name, std::vector<uint8_t> pixels,
                             std::vector<uint8_t> labels, ImageFormat format, int64_t classes,
                             const Normalisation& normalisation)
    : pixels_(std::move(pixels)), labels_(std::move(labels)), format_(format), classes_(classes) {
  // First: the extents of no pixels can be of any size, and their product overflow.
  if (labels_.empty() || pixels_.empty()) {
    throw IoError(str(name, ": wanted at least one image, got ", labels_.size(), " labels and ",
                      pixels_.size(), " pixels"));
  }
  if (pixels_.size() != static_cast<size_t>(format_.numel()) * labels_.size()) {
    throw IoError(str(name, ": wanted as many images as labels, got ", labels_.size(),
                      " labels and ", pixels_.size(), " pixels for images of ", format_.numel()));
  }
  for (size_t i = 0; i < labels_.size(); ++i) {
    if (labels_[i] >= classes_) {
      throw IoError(str(name, ": wanted labels below ", classes_, ", got ", int{labels_[i]},
                        " for image ", i));
    }
  }
  for (size_t byte = 0; byte < values_.size(); ++byte) {
    values_[byte] = (static_cast<float>(byte) / normalisation.max - normalisation.mean) /
                    normalisation.deviation;
  }
  format_.black = values_[0];
}

int64_t MemoryDataset::get(int64_t index, std::span<float> image) const {
  const auto i = static_cast<size_t>(index);
  check(i < labels_.size() && image.size() == static_cast<size_t>(format_.numel()),
        "MemoryDataset::get: wanted a sample below ", size(), " and room for ", format_.numel(),
        " values, got ", index, " and ", image.size());
  const uint8_t* pixel = pixels_.data() + i * image.size();
  for (float& value : image) value = values_[*pixel++];
  return labels_[i];
}

}  // namespace lockstep
