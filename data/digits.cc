#include "lockstep/base/error.h"
#include "lockstep/data/datasets.h"
#include "lockstep/data/digits_bytes.h"
#include "lockstep/data/memory_dataset.h"
#include "lockstep/io/gzip.h"

#include <array>
#include <charconv>
#include <span>
#include <string>
#include <utility>

namespace lockstep {
namespace {

constexpr const char* kName = "digits.csv.gz";
constexpr int64_t kSide = 8;
constexpr int64_t kClasses = 10;
// Of all 1,797 images, with pixels in [0, 1].
constexpr Normalisation kNormalisation{.max = 16, .mean = 0.3053f, .deviation = 0.3760f};

std::string text() {
  const std::span<const uint8_t> compressed(kDigitsBytes, kDigitsSize);
  GzipReader reader(compressed, kName);
  std::string csv(size_t{1} << 20, '\0');
  csv.resize(reader.read(reinterpret_cast<uint8_t*>(csv.data()), csv.size()));
  reader.expect_end();
  return csv;
}

}  // namespace

std::shared_ptr<const Dataset> digits(Split split) {
  const std::string csv = text();
  std::vector<uint8_t> pixels, labels;
  std::array<int, kClasses> seen{};
  const char* next = csv.data();
  const char* const end = next + csv.size();
  while (next < end) {
    // 64 pixels and the label, each followed by a comma or the line's end.
    std::array<uint8_t, kSide * kSide + 1> row;
    for (uint8_t& value : row) {
      const auto [stopped, error] = std::from_chars(next, end, value);
      if (error != std::errc() || stopped == end) throw IoError(str(kName, ": malformed"));
      next = stopped + 1;
    }
    const uint8_t label = row.back();
    if (label >= kClasses) throw IoError(str(kName, ": malformed label"));
    const bool test = seen[label]++ % 5 == 2;
    if (test != (split == Split::kTest)) continue;
    pixels.insert(pixels.end(), row.begin(), row.end() - 1);
    labels.push_back(label);
  }
  return std::make_shared<MemoryDataset>(
      kName, std::move(pixels), std::move(labels),
      ImageFormat{.height = kSide, .width = kSide, .channels = 1}, kClasses,
      std::vector{kNormalisation});
}

}  // namespace lockstep
