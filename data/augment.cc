#include "lockstep/data/augment.h"

#include "lockstep/base/error.h"
#include "lockstep/data/random_streams.h"

#include <algorithm>
#include <cstring>

namespace lockstep {
namespace {

void fill_black(float* from, const float* to, const ImageFormat& format) {
  while (from < to) {
    for (int64_t c = 0; c < format.channels; ++c) *from++ = format.black_of(c);
  }
}

// image[y][x] = old image[y + dy][x + dx], black outside. In place: rows in the order that reads
// each before it is written.
void shift(float* image, const ImageFormat& format, int64_t dy, int64_t dx) {
  const int64_t row = format.width * format.channels;
  const int64_t moved = std::clamp(dx, -format.width, format.width) * format.channels;
  const int64_t kept = row - std::abs(moved);
  for (int64_t i = 0; i < format.height; ++i) {
    const int64_t y = dy >= 0 ? i : format.height - 1 - i;
    float* to = image + y * row;
    if (y + dy < 0 || y + dy >= format.height) {
      fill_black(to, to + row, format);
      continue;
    }
    const float* from = image + (y + dy) * row;
    std::memmove(to + std::max<int64_t>(-moved, 0), from + std::max<int64_t>(moved, 0),
                 static_cast<size_t>(kept) * sizeof(float));
    float* uncovered = moved > 0 ? to + kept : to;
    fill_black(uncovered, uncovered + (row - kept), format);
  }
}

void flip(float* image, const ImageFormat& format) {
  for (int64_t y = 0; y < format.height; ++y) {
    float* left = image + y * format.width * format.channels;
    float* right = left + (format.width - 1) * format.channels;
    for (; left < right; left += format.channels, right -= format.channels) {
      std::swap_ranges(left, left + format.channels, right);
    }
  }
}

// Uniform in [-padding, padding].
int64_t offset(uint32_t random, int64_t padding) {
  const auto range = static_cast<uint64_t>(2 * padding + 1);
  return static_cast<int64_t>(uint64_t{random} * range >> 32) - padding;
}

}  // namespace

ImageTransform augment(const AugmentOptions& options) {
  check(options.padding >= 0 && options.padding <= 1 << 20,
        "augment: wanted a padding in [0, 2^20], got ", options.padding);
  return
      [options](std::span<float> image, const ImageFormat& format, int64_t epoch, int64_t index) {
        const uint64_t seed =
            stream_seed(options.seed, RandomPurpose::kAugment, static_cast<uint64_t>(epoch));
        const auto random = philox4x32(seed, static_cast<uint64_t>(index));
        if (options.padding > 0) {
          shift(image.data(), format, offset(random[0], options.padding),
                offset(random[1], options.padding));
        }
        if (options.flip && (random[2] & 1) != 0) flip(image.data(), format);
      };
}

}  // namespace lockstep
