// A data set whose pixels lie in memory as bytes.
#pragma once

#include "lockstep/data/dataset.h"

#include <array>
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
  /// below `classes`.
  MemoryDataset(const std::string& name, std::vector<uint8_t> pixels, std::vector<uint8_t> labels,
                ImageFormat format, int64_t classes, const Normalisation& normalisation);

  int64_t size() const override { return static_cast<int64_t>(labels_.size()); }
  int64_t classes() const override { return classes_; }
  ImageFormat format() const override { return format_; }
  int64_t get(int64_t index, std::span<float> image) const override;

 private:
  std::vector<uint8_t> pixels_, labels_;
  ImageFormat format_;
  int64_t classes_;
  std::array<float, 256> values_;  // of each byte, normalised
};

}  // namespace lockstep
