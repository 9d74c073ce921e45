// Bilinear resizing with antialiasing.
#pragma once

#include "lockstep/data/image/image.h"

#include <cstdint>

namespace lockstep {

struct Box {
  int64_t top = 0;
  int64_t left = 0;
  int64_t height = 0;
  int64_t width = 0;
};

/// Resizes the part `crop` of `image` to `height` x `width` and writes the part `window` of the
/// result, RGB bytes in HWC order, to `out`. As Pillow's Image.resize(BILINEAR), which torchvision
/// uses, to the bit (Pillow 13): a triangle filter that widens with the reduction, 22-bit
/// fixed-point weights, rounded to bytes after each of the two passes. Throws ArgumentError for
/// boxes that are empty or reach out of what they are a part of.
void resize_bilinear(const Image& image, const Box& crop, int64_t height, int64_t width,
                     const Box& window, uint8_t* out);

}  // namespace lockstep
