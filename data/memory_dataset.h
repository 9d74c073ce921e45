// A data set whose pixels lie in memory as bytes.
#pragma once

#include "lockstep/data/dataset.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

/// What turns a byte p into the value (p / max - mean) / deviation.
struct Normalisation {
  float max = 255;
  float mean = 0;
  float deviation = 1;
};

class MemoryDataset final : public Dataset {
 public:
  /// `pixels`: size * height * width * channels bytes in HWC order; `labels`: one byte per image.
  /// Throws IoError that names `name` when there is no image, the counts disagree or a label is not
  /// below `classes`. `normalisation` is one for all channels, or one for each.
  MemoryDataset(const std::string& name, std::vector<uint8_t> pixels, std::vector<uint8_t> labels,
                ImageFormat format, int64_t classes,
                const std::vector<Normalisation>& normalisation,
                std::vector<std::string> class_names = {});

  int64_t size() const override { return static_cast<int64_t>(labels_.size()); }
  int64_t classes() const override { return classes_; }
  ImageFormat format() const override { return format_; }
  int64_t get(int64_t index, std::span<float> image) const override;
  std::vector<std::string> class_names() const override { return class_names_; }

 private:
  std::vector<uint8_t> pixels_, labels_;
  ImageFormat format_;
  int64_t classes_;
  std::vector<float> values_;  // [channels, 256]: of each byte, normalised
  std::vector<std::string> class_names_;
};

}  // namespace lockstep
