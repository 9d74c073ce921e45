#include "lockstep/data/image/view.h"

#include "lockstep/data/random_streams.h"

#include <algorithm>
#include <cmath>

namespace lockstep {
namespace {

constexpr int64_t kMostSize = 1 << 14;
constexpr double kNarrowest = 3.0 / 4, kWidest = 4.0 / 3;  // width / height

// The numbers that one sample draws, each with a place of its own, so that turning one kind of
// augmentation off leaves the others as they are.
struct Draws {
  std::array<float, kCropDraws> crop;
  float flip;
  std::array<float, kColorJitterDraws> jitter;
};

Draws draw(uint64_t seed, int64_t epoch, int64_t index) {
  const uint64_t of_epoch = stream_seed(seed, RandomPurpose::kImage, static_cast<uint64_t>(epoch));
  const PhiloxRange stream{
      stream_seed(of_epoch, RandomPurpose::kImage, static_cast<uint64_t>(index)), 0};
  Draws draws;
  int64_t next = 0;
  for (float& value : draws.crop) value = stream.uniform(next++);
  draws.flip = stream.uniform(next++);
  for (float& value : draws.jitter) value = stream.uniform(next++);
  return draws;
}

// Uniform in 0 ... most.
int64_t position(float uniform, int64_t most) {
  return std::min(static_cast<int64_t>(double{uniform} * static_cast<double>(most + 1)), most);
}

std::vector<uint8_t>& scratch(int64_t size) {
  thread_local std::vector<uint8_t> bytes;
  bytes.resize(static_cast<size_t>(size * size * 3));
  return bytes;
}

}  // namespace

Box random_crop(int64_t height, int64_t width, double least_area,
                const std::array<float, kCropDraws>& uniform) {
  const auto h = static_cast<double>(height), w = static_cast<double>(width);
  const double low = std::log(kNarrowest), high = std::log(kWidest);
  for (size_t i = 0; i < uniform.size(); i += 4) {
    const double area = h * w * (least_area + (1 - least_area) * double{uniform[i]});
    const double ratio = std::exp(low + (high - low) * double{uniform[i + 1]});
    const auto crop_width = static_cast<int64_t>(std::nearbyint(std::sqrt(area * ratio)));
    const auto crop_height = static_cast<int64_t>(std::nearbyint(std::sqrt(area / ratio)));
    if (crop_width < 1 || crop_width > width || crop_height < 1 || crop_height > height) continue;
    return {.top = position(uniform[i + 2], height - crop_height),
            .left = position(uniform[i + 3], width - crop_width),
            .height = crop_height,
            .width = crop_width};
  }
  Box box{.height = height, .width = width};
  if (w / h < kNarrowest) {
    box.height = std::max<int64_t>(1, static_cast<int64_t>(std::nearbyint(w / kNarrowest)));
  } else if (w / h > kWidest) {
    box.width = std::max<int64_t>(1, static_cast<int64_t>(std::nearbyint(h * kWidest)));
  }
  box.top = (height - box.height) / 2;
  box.left = (width - box.width) / 2;
  return box;
}

ImageView::ImageView(const ImageViewOptions& options) : options_(options) {
  ImageViewOptions& o = options_;
  check(o.size >= 1 && o.size <= kMostSize, "ImageView: wanted an image size from 1 to ", kMostSize,
        ", got ", o.size);
  if (o.resize == 0) o.resize = o.size * 256 / 224;
  check(o.resize >= o.size && o.resize <= 2 * kMostSize,
        "ImageView: wanted a size before the centre crop from ", o.size, " to ", 2 * kMostSize,
        ", got ", o.resize);
  check(o.least_area > 0 && o.least_area <= 1, "ImageView: wanted a least area in (0, 1], got ",
        o.least_area);
  const ColorJitter& j = o.jitter;
  check(j.brightness >= 0 && j.contrast >= 0 && j.saturation >= 0 && j.hue >= 0 && j.hue <= 0.5f,
        "ImageView: wanted jitter of at least 0 and a hue of at most 0.5, got ", j.brightness, ", ",
        j.contrast, ", ", j.saturation, ", ", j.hue);
  for (size_t c = 0; c < 3; ++c) {
    check(o.deviation[c] > 0, "ImageView: wanted deviations above 0, got ", o.deviation[c]);
    for (size_t byte = 0; byte < 256; ++byte) {
      values_[c][byte] = (static_cast<float>(byte) / 255 - o.mean[c]) / o.deviation[c];
    }
  }
}

std::array<float, 4> ImageView::black() const {
  return {values_[0][0], values_[1][0], values_[2][0], values_[2][0]};
}

void ImageView::evaluation(const Image& image, std::span<float> out) const {
  const int64_t size = options_.size;
  const int64_t shorter = std::min(image.height, image.width);
  const int64_t height = options_.resize * image.height / shorter;
  const int64_t width = options_.resize * image.width / shorter;
  // Halves go to the even neighbour, as Python rounds.
  const auto centre = [&](int64_t length) {
    return static_cast<int64_t>(std::nearbyint(static_cast<double>(length - size) / 2));
  };
  std::vector<uint8_t>& bytes = scratch(size);
  resize_bilinear(image, {.height = image.height, .width = image.width}, height, width,
                  {.top = centre(height), .left = centre(width), .height = size, .width = size},
                  bytes.data());
  normalise(bytes, false, out);
}

void ImageView::training(const Image& image, int64_t epoch, int64_t index,
                         std::span<float> out) const {
  if (!options_.augment) return evaluation(image, out);
  const int64_t size = options_.size;
  const Draws draws = draw(options_.seed, epoch, index);
  std::vector<uint8_t>& bytes = scratch(size);
  resize_bilinear(image, random_crop(image.height, image.width, options_.least_area, draws.crop),
                  size, size, {.height = size, .width = size}, bytes.data());
  const bool flip = options_.flip && draws.flip < 0.5f;
  if (!options_.jitter.any()) return normalise(bytes, flip, out);
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(bytes[i]) / 255;
  apply_color_jitter(out, options_.jitter, draws.jitter);
  // Back to bytes, as a picture that was changed before it was loaded; flipped on the way out.
  for (size_t i = 0; i < out.size(); ++i) {
    bytes[i] = static_cast<uint8_t>(std::nearbyint(out[i] * 255));
  }
  normalise(bytes, flip, out);
}

void ImageView::normalise(const std::vector<uint8_t>& bytes, bool flip,
                          std::span<float> out) const {
  const int64_t size = options_.size;
  float* to = out.data();
  for (int64_t y = 0; y < size; ++y) {
    for (int64_t x = 0; x < size; ++x, to += 3) {
      const uint8_t* from = bytes.data() + (y * size + (flip ? size - 1 - x : x)) * 3;
      for (size_t c = 0; c < 3; ++c) to[c] = values_[c][from[c]];
    }
  }
}

}  // namespace lockstep
