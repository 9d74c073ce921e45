// Random changes of brightness, contrast, saturation and hue.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace lockstep {

// Each changes RGB pixels in [0, 1], HWC, in place, as torchvision's functions of these names do
// with float tensors; results are clamped to [0, 1]. Factor 1 changes nothing.
void adjust_brightness(std::span<float> pixels, float factor);  // towards black
void adjust_contrast(std::span<float> pixels, float factor);    // towards the mean grey
void adjust_saturation(std::span<float> pixels, float factor);  // towards each pixel's grey
/// `shift` in turns of the colour wheel, [-0.5, 0.5]; 0 changes nothing.
void adjust_hue(std::span<float> pixels, float shift);

/// Largest changes: factors are drawn from [max(0, 1 - x), 1 + x], the hue's shift from [-x, x].
struct ColorJitter {
  float brightness = 0;
  float contrast = 0;
  float saturation = 0;
  float hue = 0;  // at most 0.5

  bool any() const { return brightness > 0 || contrast > 0 || saturation > 0 || hue > 0; }
};

constexpr int kColorJitterDraws = 7;
/// The four in a random order, as torchvision's ColorJitter. `uniform`: numbers in [0, 1), four
/// for the amounts and three for the order.
void apply_color_jitter(std::span<float> pixels, const ColorJitter& jitter,
                        const std::array<float, kColorJitterDraws>& uniform);

}  // namespace lockstep
