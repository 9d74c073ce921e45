// From a decoded picture of any size to the f32 values that a network sees.
#pragma once

#include "lockstep/data/image/color_jitter.h"
#include "lockstep/data/image/image.h"
#include "lockstep/data/image/resize.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace lockstep {

struct ImageViewOptions {
  int64_t size = 224;    // height and width of the result
  int64_t resize = 0;    // of the shorter side before the centre crop; 0: size * 256 / 224
  bool augment = false;  // training: random resized crop, flip and colour jitter, instead of the
                         // centre crop
  double least_area = 0.08;  // of a random crop, as a share of the picture's
  bool flip = true;
  ColorJitter jitter = {};
  std::array<float, 3> mean = {0.485f, 0.456f, 0.406f};  // of ImageNet, with pixels in [0, 1]
  std::array<float, 3> deviation = {0.229f, 0.224f, 0.225f};
  uint64_t seed = 0;
};

class ImageView {
 public:
  /// Throws ArgumentError for sizes outside [1, 2^14], `resize` below `size`, a `least_area`
  /// outside (0, 1], negative jitter, a hue above 0.5, a deviation that is not above 0.
  explicit ImageView(const ImageViewOptions& options);

  const ImageViewOptions& options() const { return options_; }
  /// The shorter side resized, the centre cropped; torchvision's Resize and CenterCrop to the bit.
  /// `out` has size * size * 3 values, HWC.
  void evaluation(const Image& image, std::span<float> out) const;
  /// With `augment`, torchvision's RandomResizedCrop (aspect ratios from 3/4 to 4/3),
  /// RandomHorizontalFlip and ColorJitter, in that order; what is drawn depends on (seed, epoch,
  /// index) and the picture's size alone. Else as evaluation().
  void training(const Image& image, int64_t epoch, int64_t index, std::span<float> out) const;
  /// A black pixel after normalisation.
  std::array<float, 4> black() const;

 private:
  void normalise(const std::vector<uint8_t>& bytes, bool flip, std::span<float> out) const;

  ImageViewOptions options_;
  std::array<std::array<float, 256>, 3> values_;  // of each channel's bytes, normalised
};

constexpr size_t kCropDraws = 40;  // four for each of ten tries
/// What RandomResizedCrop cuts out of height x width, by numbers in [0, 1).
Box random_crop(int64_t height, int64_t width, double least_area,
                const std::array<float, kCropDraws>& uniform);

}  // namespace lockstep
