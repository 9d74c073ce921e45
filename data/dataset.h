// What a data set of labelled images is to the sampler and the loader.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

struct ImageFormat {
  int64_t height = 0;
  int64_t width = 0;
  int64_t channels = 0;
  /// What a black pixel is after normalisation; augmentation fills with it. Of each channel; the
  /// last value also holds for channels beyond it.
  std::array<float, 4> black{};

  float black_of(int64_t channel) const {
    return black[static_cast<size_t>(std::min<int64_t>(channel, 3))];
  }
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
  /// The sample as training in epoch `epoch` sees it: augmented, where a data set does that itself
  /// because it depends on the image's own size. What is drawn depends on (seed, epoch, index)
  /// alone. The loader calls this one.
  virtual int64_t sample(int64_t /*epoch*/, int64_t index, std::span<float> image) const {
    return get(index, image);
  }
  /// A name for each class; empty when the data set has none.
  virtual std::vector<std::string> class_names() const { return {}; }
  /// Samples that were asked for so far, could not be read and gave way to another one. Sorted.
  virtual std::vector<int64_t> skipped() const { return {}; }
};

}  // namespace lockstep
