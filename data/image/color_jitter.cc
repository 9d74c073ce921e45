#include "lockstep/data/image/color_jitter.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

namespace lockstep {
namespace {

float clamped(float value) { return std::clamp(value, 0.0f, 1.0f); }

// ITU-R BT.601's luma, with torchvision's digits.
float grey(const float* p) { return 0.2989f * p[0] + 0.587f * p[1] + 0.114f * p[2]; }

float blend(float value, float other, float factor) {
  return clamped(factor * value + (1 - factor) * other);
}

// Hue in turns, saturation and value of one pixel, changed and turned back (Smith 1978).
void shift_hue(float* p, float shift) {
  const float high = std::max({p[0], p[1], p[2]}), low = std::min({p[0], p[1], p[2]});
  const float range = high - low;
  if (range == 0) return;  // grey has no hue
  float sixths = 0;
  if (high == p[0]) {
    sixths = (p[1] - p[2]) / range;
  } else if (high == p[1]) {
    sixths = 2 + (p[2] - p[0]) / range;
  } else {
    sixths = 4 + (p[0] - p[1]) / range;
  }
  const float hue = sixths / 6 + shift;
  const float turned = (hue - std::floor(hue)) * 6;
  // How far each channel lies below the highest, as a share of the range: a trapezoid over the
  // wheel, a third of a turn apart.
  for (int c = 0; c < 3; ++c) {
    const float position = std::fmod(turned + 6 - 2 * static_cast<float>(c), 6.0f);
    const float distance = std::min(position, 6 - position);
    p[c] = clamped(high - range * std::clamp(distance - 1, 0.0f, 1.0f));
  }
}

float factor_of(float most, float uniform) {
  const float low = std::max(0.0f, 1 - most);
  return low + (1 + most - low) * uniform;
}

}  // namespace

void adjust_brightness(std::span<float> pixels, float factor) {
  for (float& value : pixels) value = clamped(value * factor);
}

void adjust_contrast(std::span<float> pixels, float factor) {
  double sum = 0;
  for (size_t i = 0; i < pixels.size(); i += 3) sum += grey(&pixels[i]);
  const auto mean = static_cast<float>(sum / (static_cast<double>(pixels.size()) / 3));
  for (float& value : pixels) value = blend(value, mean, factor);
}

void adjust_saturation(std::span<float> pixels, float factor) {
  for (size_t i = 0; i < pixels.size(); i += 3) {
    const float luma = grey(&pixels[i]);
    for (size_t c = 0; c < 3; ++c) pixels[i + c] = blend(pixels[i + c], luma, factor);
  }
}

void adjust_hue(std::span<float> pixels, float shift) {
  for (size_t i = 0; i < pixels.size(); i += 3) shift_hue(&pixels[i], shift);
}

void apply_color_jitter(std::span<float> pixels, const ColorJitter& jitter,
                        const std::array<float, kColorJitterDraws>& uniform) {
  std::array<int, 4> order = {0, 1, 2, 3};
  for (size_t i = 3; i > 0; --i) {
    const auto j = static_cast<size_t>(uniform[3 + i] * static_cast<float>(i + 1));
    std::swap(order[i], order[std::min(j, i)]);
  }
  for (const int which : order) {
    if (which == 0 && jitter.brightness > 0)
      adjust_brightness(pixels, factor_of(jitter.brightness, uniform[0]));
    if (which == 1 && jitter.contrast > 0)
      adjust_contrast(pixels, factor_of(jitter.contrast, uniform[1]));
    if (which == 2 && jitter.saturation > 0)
      adjust_saturation(pixels, factor_of(jitter.saturation, uniform[2]));
    if (which == 3 && jitter.hue > 0) adjust_hue(pixels, jitter.hue * (2 * uniform[3] - 1));
  }
}

}  // namespace lockstep
