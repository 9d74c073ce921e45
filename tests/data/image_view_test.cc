#include "lockstep/data/image/view.h"

#include "lockstep/data/image/color_jitter.h"
#include "lockstep/data/image/resize.h"
#include "lockstep/io/safetensors.h"

#include <doctest/doctest.h>
#include <cmath>
#include <set>
#include <string>
#include <vector>

using namespace lockstep;

namespace {

const TensorFile& golden() {
  static const TensorFile file = read_safetensors("tests/golden/images/views.safetensors");
  return file;
}

Image image_of(const Tensor& pixels) {
  return {pixels.dim(0), pixels.dim(1), pixels.to_vector<uint8_t>()};
}

Image noise(int64_t height, int64_t width) {
  Image image{height, width, std::vector<uint8_t>(static_cast<size_t>(height * width * 3))};
  uint32_t state = 1;
  for (uint8_t& value : image.pixels)
    value = static_cast<uint8_t>((state = state * 1664525 + 1013904223) >> 24);
  return image;
}

std::vector<float> training(const ImageViewOptions& options, const Image& image, int64_t epoch,
                            int64_t index) {
  std::vector<float> out(static_cast<size_t>(options.size * options.size * 3));
  ImageView(options).training(image, epoch, index, out);
  return out;
}

}  // namespace

TEST_CASE("evaluation is torchvision's Resize and CenterCrop to the bit") {
  int cases = 0;
  for (const char* size : {"37x53", "90x60", "90x17"}) {
    const Image image = image_of(golden().at(std::string("input.") + size));
    for (const auto& [resize, crop] : {std::pair{32, 28}, std::pair{64, 56}}) {
      const std::string name =
          std::string("eval.") + size + "." + std::to_string(resize) + "." + std::to_string(crop);
      const std::vector<uint8_t> wanted = golden().at(name).to_vector<uint8_t>();
      const ImageView view(
          {.size = crop, .resize = resize, .mean = {0, 0, 0}, .deviation = {1, 1, 1}});
      std::vector<float> out(wanted.size());
      view.evaluation(image, out);
      int different = 0;
      for (size_t i = 0; i < wanted.size(); ++i)
        different += std::nearbyint(out[i] * 255) != wanted[i];
      CAPTURE(name);
      CHECK(different == 0);
      ++cases;
    }
    const std::vector<uint8_t> wanted =
        golden().at(std::string("crop.") + size).to_vector<uint8_t>();
    std::vector<uint8_t> out(wanted.size());
    resize_bilinear(image,
                    {.top = 3, .left = 2, .height = image.height - 8, .width = image.width - 5}, 24,
                    24, {.height = 24, .width = 24}, out.data());
    CHECK(out == wanted);
  }
  CHECK(cases == 6);
}

TEST_CASE("colour changes are torchvision's") {
  const std::vector<float> input = golden().at("input.color").to_vector<float>();
  int cases = 0;
  for (const NamedTensor& entry : golden().tensors) {
    const size_t dot = entry.name.find('.');
    const std::string kind = entry.name.substr(0, dot);
    if (kind == "input" || kind == "eval" || kind == "crop") continue;
    const float amount = std::stof(entry.name.substr(dot + 1));
    std::vector<float> out = input;
    if (kind == "brightness") adjust_brightness(out, amount);
    if (kind == "contrast") adjust_contrast(out, amount);
    if (kind == "saturation") adjust_saturation(out, amount);
    if (kind == "hue") adjust_hue(out, amount);
    const std::vector<float> wanted = entry.tensor.to_vector<float>();
    float worst = 0;
    for (size_t i = 0; i < out.size(); ++i) worst = std::max(worst, std::abs(out[i] - wanted[i]));
    CAPTURE(entry.name);
    // A handful of f32 operations on values up to 6 (the hue's sixths): a few units of 6 * 6e-8.
    CHECK(worst < 5e-6);
    ++cases;
  }
  CHECK(cases == 11);
}

TEST_CASE("training draws by (seed, epoch, index) and nothing else") {
  const Image image = noise(40, 60);
  const ImageViewOptions options{
      .size = 16, .augment = true, .jitter = {0.4f, 0.4f, 0.4f, 0.1f}, .seed = 3};
  std::set<std::vector<float>> seen;
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    for (int64_t index = 0; index < 40; ++index) {
      const auto out = training(options, image, epoch, index);
      CHECK(out == training(options, image, epoch, index));
      seen.insert(out);
    }
  }
  CHECK(seen.size() == 120);
  ImageViewOptions other = options;
  other.seed = 4;
  CHECK(training(other, image, 0, 0) != training(options, image, 0, 0));
  other = options;
  other.augment = false;
  std::vector<float> plain(size_t{16} * 16 * 3);
  ImageView(options).evaluation(image, plain);
  CHECK(training(other, image, 0, 0) == plain);
}

TEST_CASE("half of the images are mirrored, and turning one thing off leaves the others") {
  const Image image = noise(20, 20);
  // The whole image, so that a flip is all that can happen.
  const ImageViewOptions whole{.size = 20, .augment = true, .least_area = 1, .flip = true};
  ImageViewOptions straight = whole;
  straight.flip = false;
  int mirrored = 0;
  for (int64_t i = 0; i < 400; ++i) {
    const auto a = training(whole, image, 0, i), b = training(straight, image, 0, i);
    bool same = true, swapped = true;
    for (size_t y = 0; y < 20; ++y) {
      for (size_t x = 0; x < 60; ++x) {
        same = same && a[y * 60 + x] == b[y * 60 + x];
        swapped = swapped && a[y * 60 + x] == b[y * 60 + (19 - x / 3) * 3 + x % 3];
      }
    }
    CHECK(same != swapped);
    mirrored += swapped;
  }
  CHECK(std::abs(mirrored - 200) < 50);  // five standard deviations
}

TEST_CASE("random crops have the areas and shapes that torchvision's have") {
  double least = 1, most = 0, narrowest = 9, widest = 0, sum = 0;
  std::array<float, kCropDraws> uniform;
  uint64_t state = 5;
  constexpr int kCrops = 20000;
  for (int i = 0; i < kCrops; ++i) {
    for (float& value : uniform) {
      state = state * 6364136223846793005 + 1442695040888963407;
      value = static_cast<float>(state >> 40) * 0x1p-24f;
    }
    const Box box = random_crop(300, 400, 0.08, uniform);
    CHECK(box.top >= 0);
    CHECK(box.left >= 0);
    CHECK(box.top + box.height <= 300);
    CHECK(box.left + box.width <= 400);
    const double area = static_cast<double>(box.height * box.width) / (300 * 400);
    const double ratio = static_cast<double>(box.width) / static_cast<double>(box.height);
    least = std::min(least, area);
    most = std::max(most, area);
    narrowest = std::min(narrowest, ratio);
    widest = std::max(widest, ratio);
    sum += area;
  }
  // Whole pixels: a side of 85 or more is off by at most half a pixel.
  CHECK(least > 0.079);
  CHECK(least < 0.085);
  CHECK(most > 0.97);
  CHECK(most <= 1);
  CHECK(narrowest == doctest::Approx(0.75).epsilon(0.01));
  CHECK(widest == doctest::Approx(4.0 / 3).epsilon(0.01));
  // Uniform in [0.08, 1] would be 0.54, but tries that do not fit are large ones. The mean area of
  // 20,000 of torchvision's RandomResizedCrop.get_params for this size was 0.4293; either has a
  // standard error of 0.0018.
  CHECK(std::abs(sum / kCrops - 0.4293) < 0.01);

  // What no crop fits: the largest central part of a shape that is allowed.
  uniform.fill(0.5f);
  const Box tall = random_crop(4000, 30, 1, uniform);
  CHECK(tall.height == 40);
  CHECK(tall.width == 30);
  CHECK(tall.top == 1980);
  const Box wide = random_crop(30, 4000, 1, uniform);
  CHECK(wide.width == 40);
  CHECK(wide.left == 1980);
  CHECK(random_crop(1, 5000, 1, uniform).height == 1);
}

TEST_CASE("extreme shapes are resized without taking memory for the whole") {
  const Image image = noise(1, 50000);
  const ImageView view({.size = 224});
  std::vector<float> out(size_t{224} * 224 * 3);
  view.evaluation(image, out);  // 256 x 12,800,000 before the crop
  CHECK(std::isfinite(out[0]));
}

TEST_CASE("options that make no sense are refused") {
  CHECK_THROWS_AS(ImageView({.size = 0}), ArgumentError);
  CHECK_THROWS_AS(ImageView({.size = 32, .resize = 31}), ArgumentError);
  CHECK_THROWS_AS(ImageView({.least_area = 0}), ArgumentError);
  CHECK_THROWS_AS(ImageView({.jitter = {.hue = 0.6f}}), ArgumentError);
  CHECK_THROWS_AS(ImageView({.deviation = {1, 0, 1}}), ArgumentError);
  const Image image = noise(4, 4);
  uint8_t out[48];
  const Box all{.height = 4, .width = 4};
  CHECK_THROWS_AS(resize_bilinear(image, {.top = 1, .height = 4, .width = 4}, 4, 4, all, out),
                  ArgumentError);
  CHECK_THROWS_AS(resize_bilinear(image, all, 3, 4, all, out), ArgumentError);
}
