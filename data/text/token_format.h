// Sizes and marks of the format that token_file.h describes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace lockstep {

// A carriage return and a line feed: a copy that changes line ends is found out.
constexpr std::array<uint8_t, 8> kTokenMagic = {'L', 'S', 'T', 'O', 'K', 'S', '\r', '\n'};
constexpr uint32_t kTokenVersion = 1;
constexpr size_t kTokenHeaderBytes = 104;
constexpr uint32_t kTokenLowerCase = 1, kTokenStripAccents = 2;

}  // namespace lockstep
