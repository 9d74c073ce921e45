// Light augmentation of training images.
#pragma once

#include "lockstep/data/loader.h"

#include <cstdint>

namespace lockstep {

struct AugmentOptions {
  int64_t padding = 4;  // a crop of the image's own size out of the image with this border of black
                        // (He et al. 2015, 4.2)
  bool flip = true;     // left to right, every second time; not for digits
  uint64_t seed = 0;
};

/// A transform for LoaderOptions. What it draws depends on (seed, epoch, sample index) alone.
/// Throws ArgumentError for a padding that is negative or above 2^20.
ImageTransform augment(const AugmentOptions& options);

}  // namespace lockstep
