// A set of byte strings, walked byte by byte: a double array (Aoe, "An efficient digital search
// algorithm by using a double-array structure", 1989). A step is one look into memory.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

class WordTrie {
 public:
  static constexpr uint32_t kRoot = 0, kNone = 0xFFFFFFFF;

  /// Keys are distinct and not empty, values at least 0.
  explicit WordTrie(std::vector<std::pair<std::string, int32_t>> keys);

  /// The node behind `byte`, or kNone.
  uint32_t step(uint32_t node, uint8_t byte) const {
    const uint32_t next = cells_[node].base ^ byte;
    return cells_[next].parent == node ? next : kNone;
  }
  /// The value of the key that ends at `node`, or -1.
  int32_t value(uint32_t node) const { return cells_[node].value; }

 private:
  struct Cell {
    uint32_t base = 0;  // the child behind byte b is at base ^ b, if its parent is this one
    uint32_t parent = kNone;
    int32_t value = -1;
  };
  uint32_t free_base(std::span<const uint8_t> bytes);

  std::vector<Cell> cells_;
  size_t first_free_ = 1;  // cells before it are not looked at any more
};

}  // namespace lockstep
