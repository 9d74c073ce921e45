// Image files of every format that is decoded, EXIF blocks among them, and the views of what
// decodes.

// sources: data/image/decode.cc data/image/jpeg.cc data/image/png.cc data/image/exif.cc
// sources: data/image/resize.cc data/image/view.cc data/image/color_jitter.cc
// flags: -ljpeg -lpng -lz
// seeds: tests/golden/images

#include "lockstep/data/image/decode.h"
#include "lockstep/data/image/view.h"

#include <zlib.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

/// Rights the checksum of every chunk, or no change to a PNG would get further than that.
void repair_png(std::vector<uint8_t>& file) {
  if (file.size() < 8 || std::memcmp(file.data(), "\x89PNG\r\n\x1a\n", 8) != 0) return;
  for (size_t at = 8; file.size() - at >= 12;) {
    const size_t length = size_t{file[at]} << 24 | size_t{file[at + 1]} << 16 |
                          size_t{file[at + 2]} << 8 | size_t{file[at + 3]};
    if (length > file.size() - at - 12) return;
    const uLong crc = crc32(0, file.data() + at + 4, static_cast<uInt>(length + 4));
    for (size_t i = 0; i < 4; ++i)
      file[at + 8 + length + i] = static_cast<uint8_t>(crc >> (24 - 8 * i));
    at += 12 + length;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  static const ImageView view({.size = 16, .augment = true, .jitter = {0.4f, 0.4f, 0.4f, 0.1f}});
  static Image image;  // with what the input before left in it, as in a loader's thread
  static std::vector<float> out(size_t{16} * 16 * 3);
  std::vector<uint8_t> file(data, data + size);
  if (size % 4 != 0) repair_png(file);
  try {
    decode_image(file, "fuzz", {.max_pixels = 1 << 18}, image);
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
