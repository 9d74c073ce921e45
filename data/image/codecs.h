// The formats behind decode_image(): each throws BadImage and fills `image`, orientation applied.
#pragma once

#include "lockstep/data/image/decode.h"

namespace lockstep {

bool is_jpeg(std::span<const uint8_t> bytes);
bool is_png(std::span<const uint8_t> bytes);
bool is_rgb(std::span<const uint8_t> bytes);

void decode_jpeg(std::span<const uint8_t> bytes, const std::string& name,
                 const DecodeOptions& options, Image& image);
void decode_png(std::span<const uint8_t> bytes, const std::string& name,
                const DecodeOptions& options, Image& image);
void decode_rgb(std::span<const uint8_t> bytes, const std::string& name,
                const DecodeOptions& options, Image& image);

/// Refuses sizes below 1 and above the limit, and takes the memory.
void set_size(uint64_t height, uint64_t width, const std::string& name,
              const DecodeOptions& options, Image& image);

}  // namespace lockstep
