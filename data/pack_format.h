// Sizes and marks of the format that pack.h describes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace lockstep {

// A carriage return and a line feed: a copy that changes line ends is found out.
constexpr std::array<uint8_t, 8> kPackMagic = {'L', 'S', 'P', 'A', 'C', 'K', '\r', '\n'};
constexpr uint32_t kPackVersion = 1;
constexpr size_t kPackHeaderBytes = 64;
constexpr size_t kPackEntryBytes = 16;

}  // namespace lockstep
