// A decoded picture, and what is wrong with those that cannot be decoded.
#pragma once

#include "lockstep/base/error.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep {

/// An image file that is corrupt, of no known format, or larger than allowed. Unlike other
/// IoErrors it says nothing about the machine: another image may be taken instead.
class BadImage : public IoError {
 public:
  using IoError::IoError;
};

struct Image {
  int64_t height = 0;
  int64_t width = 0;
  std::vector<uint8_t> pixels;  // [height, width, 3]: red, green, blue

  const uint8_t* at(int64_t y, int64_t x) const { return pixels.data() + (y * width + x) * 3; }
};

}  // namespace lockstep
