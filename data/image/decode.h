// Encoded images to RGB bytes.
#pragma once

#include "lockstep/data/image/image.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

struct DecodeOptions {
  /// Most pixels an image may announce, checked before memory is taken for them: 100 million are
  /// 300 MB in each thread that decodes.
  int64_t max_pixels = 100'000'000;
};

/// Decodes `bytes` into `image` (whose memory is used again). The format is told by the first
/// bytes, not by a name: JPEG (baseline and progressive; grey, YCbCr, RGB, and CMYK and YCCK with
/// Adobe's inverted values), PNG (all kinds: grey and palettes become RGB, alpha is dropped, 16
/// bits are rounded to 8), and the plain format of encode_rgb(). An EXIF orientation is applied, as
/// viewers do. Colour profiles and gamma are ignored.
///
/// Throws BadImage, which names `name`, for anything else, for an image that ends early or is
/// damaged (PNG: by its checksums; JPEG has none: where its codes make no sense), and for one of
/// more than max_pixels. Safe from any thread.
void decode_image(std::span<const uint8_t> bytes, const std::string& name,
                  const DecodeOptions& options, Image& image);

/// The plain format: "RGB8", height and width as little-endian 32-bit words, the pixels.
std::vector<uint8_t> encode_rgb(const Image& image);

}  // namespace lockstep
