#include "lockstep/data/image/decode.h"

#include "lockstep/data/image/codecs.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace lockstep {
namespace {

constexpr std::array<uint8_t, 4> kRgbMagic = {'R', 'G', 'B', '8'};
constexpr size_t kRgbHeader = 12;

// What a file begins with, for a message: printable characters as they are.
std::string beginning(std::span<const uint8_t> bytes) {
  std::string text;
  for (const uint8_t c : bytes.first(std::min<size_t>(bytes.size(), 8))) {
    text += c >= 0x20 && c < 0x7f ? static_cast<char>(c) : '?';
  }
  return text;
}

uint32_t word(const uint8_t* p) {
  return uint32_t{p[0]} | uint32_t{p[1]} << 8 | uint32_t{p[2]} << 16 | uint32_t{p[3]} << 24;
}

void append_word(std::vector<uint8_t>& to, int64_t value) {
  for (int shift = 0; shift < 32; shift += 8) to.push_back(static_cast<uint8_t>(value >> shift));
}

}  // namespace

void set_size(uint64_t height, uint64_t width, const std::string& name,
              const DecodeOptions& options, Image& image) {
  // Both fit 32 bits in every format, so the product cannot overflow.
  if (height == 0 || width == 0 || height * width > static_cast<uint64_t>(options.max_pixels)) {
    throw BadImage(str("decode_image: ", name, ": the header announces ", width, " x ", height,
                       " pixels; wanted 1 to ", options.max_pixels,
                       " (--max-image-pixels raises the limit)"));
  }
  image.height = static_cast<int64_t>(height);
  image.width = static_cast<int64_t>(width);
  image.pixels.resize(height * width * 3);
}

bool is_rgb(std::span<const uint8_t> bytes) {
  return bytes.size() >= kRgbHeader &&
         std::equal(kRgbMagic.begin(), kRgbMagic.end(), bytes.begin());
}

void decode_rgb(std::span<const uint8_t> bytes, const std::string& name,
                const DecodeOptions& options, Image& image) {
  const uint64_t height = word(bytes.data() + 4), width = word(bytes.data() + 8);
  // Compared before memory is taken, without a product that might overflow.
  const uint64_t held = (bytes.size() - kRgbHeader) / 3;
  if (height != 0 &&
      (held / height != width || held % height != 0 || (bytes.size() - kRgbHeader) % 3 != 0)) {
    throw BadImage(str("decode_image: ", name, ": the header announces ", width, " x ", height,
                       " pixels, ", bytes.size() - kRgbHeader, " bytes follow"));
  }
  set_size(height, width, name, options, image);
  std::memcpy(image.pixels.data(), bytes.data() + kRgbHeader, image.pixels.size());
}

std::vector<uint8_t> encode_rgb(const Image& image) {
  std::vector<uint8_t> bytes(kRgbMagic.begin(), kRgbMagic.end());
  bytes.reserve(kRgbHeader + image.pixels.size());
  append_word(bytes, image.height);
  append_word(bytes, image.width);
  bytes.insert(bytes.end(), image.pixels.begin(), image.pixels.end());
  return bytes;
}

void decode_image(std::span<const uint8_t> bytes, const std::string& name,
                  const DecodeOptions& options, Image& image) {
  if (is_jpeg(bytes)) return decode_jpeg(bytes, name, options, image);
  if (is_png(bytes)) return decode_png(bytes, name, options, image);
  if (is_rgb(bytes)) return decode_rgb(bytes, name, options, image);
  if (bytes.empty()) throw BadImage(str("decode_image: ", name, ": the file is empty"));
  throw BadImage(str("decode_image: ", name,
                     ": wanted a JPEG or PNG image, got a file that begins "
                     "with '",
                     beginning(bytes), "'"));
}

}  // namespace lockstep
