#include "lockstep/data/augment.h"

#include "lockstep/base/error.h"

#include <doctest/doctest.h>
#include <set>
#include <vector>

using namespace lockstep;

namespace {

constexpr ImageFormat kFormat{.height = 5, .width = 7, .channels = 2, .black = {-9, -9}};

float pixel(int64_t y, int64_t x, int64_t c) { return static_cast<float>(100 * y + 10 * x + c); }

std::vector<float> original() {
  std::vector<float> image;
  for (int64_t y = 0; y < 5; ++y) {
    for (int64_t x = 0; x < 7; ++x) {
      for (int64_t c = 0; c < 2; ++c) image.push_back(pixel(y, x, c));
    }
  }
  return image;
}

std::vector<float> augmented(const AugmentOptions& options, int64_t epoch, int64_t index) {
  std::vector<float> image = original();
  augment(options)(image, kFormat, epoch, index);
  return image;
}

// The crop at (dy, dx), mirrored or not, written the slow way.
std::vector<float> reference(int64_t dy, int64_t dx, bool mirrored) {
  std::vector<float> image;
  for (int64_t y = 0; y < 5; ++y) {
    for (int64_t x = 0; x < 7; ++x) {
      const int64_t from_y = y + dy, from_x = (mirrored ? 6 - x : x) + dx;
      const bool inside = 0 <= from_y && from_y < 5 && 0 <= from_x && from_x < 7;
      for (int64_t c = 0; c < 2; ++c) image.push_back(inside ? pixel(from_y, from_x, c) : -9);
    }
  }
  return image;
}

}  // namespace

TEST_CASE("every draw is a crop with or without a flip, and all of them occur") {
  // Padding beyond the image too: crops that miss it are black.
  for (int64_t padding : {0, 1, 2, 8}) {
    for (bool flip : {false, true}) {
      std::set<std::vector<float>> possible, seen;
      for (int64_t dy = -padding; dy <= padding; ++dy) {
        for (int64_t dx = -padding; dx <= padding; ++dx) {
          possible.insert(reference(dy, dx, false));
          if (flip) possible.insert(reference(dy, dx, true));
        }
      }
      for (int64_t i = 0; i < 6000; ++i) {
        const auto image = augmented({.padding = padding, .flip = flip, .seed = 3}, i % 3, i);
        CHECK(possible.contains(image));
        seen.insert(image);
      }
      CHECK(seen.size() == possible.size());
    }
  }
}

TEST_CASE("what is drawn depends on seed, epoch and sample, and on nothing else") {
  const AugmentOptions options{.padding = 4, .seed = 1};
  std::vector<std::vector<float>> first, second, other_epoch, other_seed;
  for (int64_t i = 0; i < 50; ++i) first.push_back(augmented(options, 2, i));
  for (int64_t i = 49; i >= 0; --i) second.insert(second.begin(), augmented(options, 2, i));
  for (int64_t i = 0; i < 50; ++i) other_epoch.push_back(augmented(options, 3, i));
  for (int64_t i = 0; i < 50; ++i) other_seed.push_back(augmented({.padding = 4, .seed = 2}, 2, i));
  CHECK(first == second);
  CHECK(first != other_epoch);
  CHECK(first != other_seed);
  CHECK(first[0] != first[1]);
}

TEST_CASE("a negative padding is refused") {
  CHECK_THROWS_AS(augment({.padding = -1}), ArgumentError);
}
