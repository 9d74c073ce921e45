// What a data set of labelled images is to the sampler and the loader.
#pragma once

#include <cstdint>
#include <span>

namespace lockstep {

struct ImageFormat {
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 0;
  /// What a black pixel is after normalisation; augmentation fills with it.
  float black = 0;

  int64_t numel() const { return height * width * channels; }
};

/// A map from an index to an image and its label. Immutable, so safe from any thread.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual int64_t size() const = 0;
  /// Labels are in [0, classes()).
  virtual int64_t classes() const = 0;
  virtual ImageFormat format() const = 0;
  /// Writes sample `index`, normalised, in HWC order into `image` (format().numel() values) and
  /// returns its label. 0 <= index < size(). May throw IoError when samples are read on demand.
  virtual int64_t get(int64_t index, std::span<float> image) const = 0;
};

}  // namespace lockstep
