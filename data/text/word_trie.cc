#include "lockstep/data/text/word_trie.h"

#include <algorithm>

namespace lockstep {

/// A base under which the children behind `bytes` meet free cells.
uint32_t WordTrie::free_base(std::span<const uint8_t> bytes) {
  size_t looked = 0, taken = 0;
  for (size_t cell = first_free_;; ++cell) {
    // Blocks of 256, so that base ^ byte stays inside.
    if (cell >= cells_.size()) cells_.resize(cells_.size() + 256);
    ++looked;
    if (cells_[cell].parent != kNone) {
      ++taken;
      continue;
    }
    const auto base = static_cast<uint32_t>(cell) ^ bytes[0];
    const bool fits = std::all_of(bytes.begin(), bytes.end(), [&](uint8_t b) {
      return (base ^ b) != kRoot && cells_[base ^ b].parent == kNone;
    });
    if (!fits) continue;
    // Where nearly all is taken, the search need not begin again.
    if (looked > 64 && taken * 20 > looked * 19) first_free_ = cell;
    return base;
  }
}

WordTrie::WordTrie(std::vector<std::pair<std::string, int32_t>> keys) : cells_(256) {
  std::sort(keys.begin(), keys.end());
  struct Pending {
    uint32_t node;
    size_t begin, end, depth;  // the keys that have this node's path, and its length
  };
  // Cell 0 is the root: nobody's child, and never given away.
  std::vector<Pending> pending = {{kRoot, 0, keys.size(), 0}};
  std::vector<uint8_t> bytes;
  std::vector<size_t> begins;
  while (!pending.empty()) {
    auto [node, begin, end, depth] = pending.back();
    pending.pop_back();
    if (begin < end && keys[begin].first.size() == depth) cells_[node].value = keys[begin++].second;
    if (begin == end) continue;
    bytes.clear();
    begins.clear();
    for (size_t i = begin; i < end; ++i) {
      const auto byte = static_cast<uint8_t>(keys[i].first[depth]);
      if (bytes.empty() || bytes.back() != byte) {
        bytes.push_back(byte);
        begins.push_back(i);
      }
    }
    begins.push_back(end);
    const uint32_t base = free_base(bytes);
    cells_[node].base = base;
    for (size_t i = 0; i < bytes.size(); ++i) {
      const uint32_t child = base ^ bytes[i];
      cells_[child].parent = node;
      pending.push_back({child, begins[i], begins[i + 1], depth + 1});
    }
  }
}

}  // namespace lockstep
