#include "lockstep/data/text/utf8.h"

#include <cstdio>
#include <cstring>

namespace lockstep {

std::optional<size_t> invalid_utf8_at(std::string_view text) {
  const char* const begin = text.data();
  const char* const end = begin + text.size();
  for (const char* p = begin; p < end;) {
    if (end - p >= 8) {  // eight ASCII bytes at once
      uint64_t word;
      std::memcpy(&word, p, 8);
      if ((word & 0x8080808080808080) == 0) {
        p += 8;
        continue;
      }
    }
    const DecodedChar c = decode_utf8(p, end);
    if (!c.valid) return static_cast<size_t>(p - begin);
    p += c.bytes;
  }
  return std::nullopt;
}

std::string quote_text(std::string_view text) {
  constexpr size_t kMost = 40;
  std::string out = "\"";
  const char* p = text.data();
  const char* const end = p + text.size();
  while (p < end && static_cast<size_t>(p - text.data()) < kMost) {
    const DecodedChar c = decode_utf8(p, end);
    if (c.valid && c.code_point >= 0x20 && (c.code_point < 0x7F || c.code_point >= 0xA0)) {
      out.append(p, c.bytes);
    } else {
      for (uint32_t i = 0; i < c.bytes; ++i) {
        char code[8];
        std::snprintf(code, sizeof code, "\\x%02x",
                      static_cast<unsigned>(static_cast<uint8_t>(p[i])));
        out += code;
      }
    }
    p += c.bytes;
  }
  return out + (p < end ? "...\"" : "\"");
}

}  // namespace lockstep
