// FNV-1a (Fowler, Noll, Vo), 64 bits: the same number for the same bytes on every machine and in
// every version. Not for secrets.
#pragma once

#include <cstdint>
#include <string_view>

namespace lockstep {

/// The last bytes hardly reach the high bits: mix where those count.
constexpr uint64_t fnv1a(std::string_view bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

}  // namespace lockstep
