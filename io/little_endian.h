// Integers in files, whose bytes lie lowest first whatever the machine.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lockstep {

/// The `count` bytes from `at` on as an integer; they have to be there.
inline uint64_t load_little_endian(std::span<const uint8_t> bytes, uint64_t at, int count) {
  uint64_t value = 0;
  for (int i = 0; i < count; ++i) {
    value |= uint64_t{bytes[at + static_cast<uint64_t>(i)]} << (8 * i);
  }
  return value;
}

inline uint32_t load_u32(std::span<const uint8_t> bytes, uint64_t at) {
  return static_cast<uint32_t>(load_little_endian(bytes, at, 4));
}

inline uint64_t load_u64(std::span<const uint8_t> bytes, uint64_t at) {
  return load_little_endian(bytes, at, 8);
}

/// Appends the lowest `count` bytes of `value`.
inline void append_little_endian(std::vector<uint8_t>& to, uint64_t value, int count) {
  for (int i = 0; i < count; ++i) to.push_back(static_cast<uint8_t>(value >> (8 * i)));
}

}  // namespace lockstep
