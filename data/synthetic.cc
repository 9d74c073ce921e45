#include "lockstep/base/error.h"
#include "lockstep/data/datasets.h"
#include "lockstep/data/random_streams.h"

#include <cmath>

namespace lockstep {
namespace {

// A class's pattern has this many blocks a side, so that patterns stay small however large the
// images are.
constexpr int64_t kBlocks = 8;

// Uniform with mean 0 and standard deviation 1.
float centred(float uniform) { return (uniform - 0.5f) * 3.4641016f; }

class SyntheticImages final : public Dataset {
 public:
  explicit SyntheticImages(const SyntheticOptions& options) : options_(options) {
    const auto& o = options_;
    constexpr int64_t kMost = 1 << 20;
    check(o.size >= 1 && o.height >= 1 && o.width >= 1 && o.channels >= 1 && o.classes >= 1,
          "synthetic: wanted at least one image, pixel, channel and class, got ", o.size,
          " images of ", o.height, 'x', o.width, 'x', o.channels, " in ", o.classes, " classes");
    check(o.height <= kMost && o.width <= kMost && o.channels <= kMost / o.classes,
          "synthetic: wanted at most 2^20 rows, columns and classes x channels, got ", o.height,
          ", ", o.width, " and ", o.classes, " x ", o.channels);
    check(o.noise >= 0 && std::isfinite(o.noise), "synthetic: wanted noise >= 0, got ", o.noise);
    for (int64_t label = 0; label < o.classes; ++label) {
      const PhiloxRange random{
          stream_seed(o.seed, RandomPurpose::kPrototypes, static_cast<uint64_t>(label)), 0};
      for (int64_t i = 0; i < kBlocks * kBlocks * o.channels; ++i) {
        patterns_.push_back(centred(random.uniform(i)));
      }
    }
  }

  int64_t size() const override { return options_.size; }
  int64_t classes() const override { return options_.classes; }
  ImageFormat format() const override {
    return {.height = options_.height, .width = options_.width, .channels = options_.channels};
  }

  int64_t get(int64_t index, std::span<float> image) const override {
    const auto& o = options_;
    check(0 <= index && index < o.size && image.size() == static_cast<size_t>(format().numel()),
          "synthetic: wanted a sample below ", o.size, " and room for ", format().numel(),
          " values, got ", index, " and ", image.size());
    const int64_t label = index % o.classes;
    const auto stream = static_cast<uint64_t>(index) * 2 + (o.split == Split::kTest ? 1 : 0);
    const float* pattern = patterns_.data() + label * kBlocks * kBlocks * o.channels;
    const uint64_t noise_seed = stream_seed(o.seed, RandomPurpose::kNoise, stream);
    std::array<uint32_t, 4> words{};
    size_t i = 0;
    for (int64_t y = 0; y < o.height; ++y) {
      for (int64_t x = 0; x < o.width; ++x) {
        const int64_t block = y * kBlocks / o.height * kBlocks + x * kBlocks / o.width;
        for (int64_t c = 0; c < o.channels; ++c, ++i) {
          if (i % 4 == 0) words = philox4x32(noise_seed, i / 4);
          const float noise = static_cast<float>(words[i % 4] >> 8) * 0x1p-24f;
          image[i] = pattern[block * o.channels + c] + o.noise * centred(noise);
        }
      }
    }
    return label;
  }

 private:
  const SyntheticOptions options_;
  std::vector<float> patterns_;  // [classes, blocks, blocks, channels]
};

}  // namespace

std::shared_ptr<const Dataset> synthetic(const SyntheticOptions& options) {
  return std::make_shared<SyntheticImages>(options);
}

}  // namespace lockstep
