#include "lockstep/data/memory_dataset.h"

#include "lockstep/base/error.h"

#include <algorithm>
#include <utility>

namespace lockstep {

MemoryDataset::MemoryDataset(const std::string& name, std::vector<uint8_t> pixels,
                             std::vector<uint8_t> labels, ImageFormat format, int64_t classes,
                             const std::vector<Normalisation>& normalisation,
                             std::vector<std::string> class_names)
    : pixels_(std::move(pixels)),
      labels_(std::move(labels)),
      format_(format),
      classes_(classes),
      class_names_(std::move(class_names)) {
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
  const auto channels = static_cast<size_t>(format_.channels);
  check(normalisation.size() == 1 || normalisation.size() == channels,
        "MemoryDataset: wanted one normalisation, or one for each of ", channels, " channels, got ",
        normalisation.size());
  values_.resize(channels * 256);
  for (size_t c = 0; c < channels; ++c) {
    const Normalisation& n = normalisation[normalisation.size() == 1 ? 0 : c];
    for (size_t byte = 0; byte < 256; ++byte) {
      values_[c * 256 + byte] = (static_cast<float>(byte) / n.max - n.mean) / n.deviation;
    }
  }
  for (size_t c = 0; c < format_.black.size(); ++c) {
    format_.black[c] = values_[std::min(c, channels - 1) * 256];
  }
}

int64_t MemoryDataset::get(int64_t index, std::span<float> image) const {
  const auto i = static_cast<size_t>(index);
  check(i < labels_.size() && image.size() == static_cast<size_t>(format_.numel()),
        "MemoryDataset::get: wanted a sample below ", size(), " and room for ", format_.numel(),
        " values, got ", index, " and ", image.size());
  const uint8_t* pixel = pixels_.data() + i * image.size();
  const auto channels = static_cast<size_t>(format_.channels);
  for (size_t at = 0; at < image.size(); at += channels) {
    for (size_t c = 0; c < channels; ++c) image[at + c] = values_[c * 256 + *pixel++];
  }
  return labels_[i];
}

}  // namespace lockstep
