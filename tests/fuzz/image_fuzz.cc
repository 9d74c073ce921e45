// Image files of every format that is decoded, EXIF blocks among them, and the views of what
// decodes.

// sources: data/image/decode.cc data/image/jpeg.cc data/image/png.cc data/image/exif.cc
// sources: data/image/resize.cc data/image/view.cc data/image/color_jitter.cc
// flags: -ljpeg -lpng
// seeds: tests/golden/images

#include "lockstep/data/image/decode.h"
#include "lockstep/data/image/view.h"

#include <cmath>
#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  static const ImageView view({.size = 16, .augment = true, .jitter = {0.4f, 0.4f, 0.4f, 0.1f}});
  static Image image;  // with what the input before left in it, as in a loader's thread
  static std::vector<float> out(16 * 16 * 3);
  try {
    decode_image({data, size}, "fuzz", {.max_pixels = 1 << 18}, image);
  } catch (const BadImage&) {
    return 0;
  }
  if (image.pixels.size() != static_cast<size_t>(image.height * image.width * 3)) std::abort();
  view.evaluation(image, out);
  view.training(image, 1, static_cast<int64_t>(size), out);
  for (const float value : out) {
    if (!std::isfinite(value)) std::abort();
  }
  return 0;
}
