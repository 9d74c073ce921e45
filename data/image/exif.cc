#include "lockstep/data/image/exif.h"

#include <cstring>
#include <utility>

namespace lockstep {
namespace {

// Integers of either byte order; what lies outside the block reads as 0.
class Tiff {
 public:
  explicit Tiff(std::span<const uint8_t> bytes)
      : bytes_(bytes), big_endian_(!bytes.empty() && bytes[0] == 'M') {}

  uint64_t read(uint64_t at, int count) const {
    if (at > bytes_.size() || bytes_.size() - at < static_cast<uint64_t>(count)) return 0;
    uint64_t value = 0;
    for (int i = 0; i < count; ++i) {
      const uint64_t byte = bytes_[at + static_cast<uint64_t>(i)];
      value = big_endian_ ? value << 8 | byte : value | byte << (8 * i);
    }
    return value;
  }

 private:
  std::span<const uint8_t> bytes_;
  bool big_endian_;
};

constexpr uint64_t kOrientationTag = 0x112;
constexpr uint64_t kShort = 3;
constexpr uint64_t kEntryBytes = 12;

}  // namespace

int exif_orientation(std::span<const uint8_t> bytes) {
  if (bytes.size() < 8) return 1;
  const bool known =
      std::memcmp(bytes.data(), "II", 2) == 0 || std::memcmp(bytes.data(), "MM", 2) == 0;
  const Tiff tiff(bytes);
  if (!known || tiff.read(2, 2) != 42) return 1;
  const uint64_t directory = tiff.read(4, 4);
  const uint64_t entries = tiff.read(directory, 2);
  for (uint64_t i = 0; i < entries; ++i) {
    const uint64_t entry = directory + 2 + i * kEntryBytes;
    if (tiff.read(entry, 2) != kOrientationTag) continue;
    const uint64_t value = tiff.read(entry + 8, 2);
    const bool sensible = tiff.read(entry + 2, 2) == kShort && value >= 1 && value <= 8;
    return sensible ? static_cast<int>(value) : 1;
  }
  return 1;
}

void apply_orientation(int orientation, Image& image) {
  if (orientation <= 1 || orientation > 8) return;
  const bool swaps = orientation >= 5;
  // Where the upright picture's pixel (y, x) is stored. Rows and columns are exchanged first, then
  // each may run backwards.
  const bool from_bottom =
      orientation == 3 || orientation == 4 || orientation == 7 || orientation == 8;
  const bool from_right =
      orientation == 2 || orientation == 3 || orientation == 6 || orientation == 7;
  Image upright;
  upright.height = swaps ? image.width : image.height;
  upright.width = swaps ? image.height : image.width;
  upright.pixels.resize(image.pixels.size());
  uint8_t* to = upright.pixels.data();
  for (int64_t y = 0; y < upright.height; ++y) {
    const int64_t row = from_bottom ? upright.height - 1 - y : y;
    for (int64_t x = 0; x < upright.width; ++x, to += 3) {
      const int64_t column = from_right ? upright.width - 1 - x : x;
      std::memcpy(to, swaps ? image.at(column, row) : image.at(row, column), 3);
    }
  }
  image = std::move(upright);
}

}  // namespace lockstep
