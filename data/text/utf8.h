// UTF-8, strictly (RFC 3629): no surrogates, no overlong forms, nothing above U+10FFFF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep {

constexpr char32_t kReplacementCharacter = 0xFFFD;

struct DecodedChar {
  char32_t code_point = 0;
  uint32_t bytes = 0;  // read for it
  bool valid = true;
};

/// What stands at `p` < `end`. What is no UTF-8 is one U+FFFD for each longest beginning of a valid
/// sequence (The Unicode Standard, 3.9, "U+FFFD substitution of maximal subparts"), as Python's and
/// Rust's decoders have it.
inline DecodedChar decode_utf8(const char* p, const char* end) {
  const auto byte = [p](int i) { return static_cast<uint8_t>(p[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return {lead, 1, true};
  if (lead < 0xC2 || lead > 0xF4) return {kReplacementCharacter, 1, false};
  const uint32_t wanted = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // The second byte's range is narrower behind four of the lead bytes.
  const uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  char32_t value = lead & (0x7Fu >> wanted);
  for (uint32_t i = 1; i < wanted; ++i) {
    const bool there = end - p > static_cast<ptrdiff_t>(i);
    const uint8_t next = there ? byte(static_cast<int>(i)) : 0;
    if (!there || next < (i == 1 ? low : 0x80) || next > (i == 1 ? high : 0xBF)) {
      return {kReplacementCharacter, i, false};
    }
    value = value << 6 | (next & 0x3Fu);
  }
  return {value, wanted, true};
}

/// Writes `c` to `to`, which has room for four bytes, and returns the bytes written.
inline uint32_t encode_utf8(char32_t c, char* to) {
  if (c < 0x80) {
    to[0] = static_cast<char>(c);
    return 1;
  }
  const uint32_t bytes = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
  for (uint32_t i = bytes - 1; i > 0; --i, c >>= 6) to[i] = static_cast<char>(0x80 | (c & 0x3F));
  to[0] = static_cast<char>((0xF00u >> bytes & 0xF0) | c);
  return bytes;
}

/// Where `text` stops to be UTF-8, in bytes; none when it is all right.
std::optional<size_t> invalid_utf8_at(std::string_view text);

/// A short piece of `text` for a message: in quotes, control characters and what is no UTF-8
/// escaped, cut after some 40 bytes.
std::string quote_text(std::string_view text);

}  // namespace lockstep
