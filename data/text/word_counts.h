// How often each word is in a text.
#pragma once

#include "lockstep/data/text/char_table.h"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace lockstep {

/// Takes memory for the distinct words alone.
class WordCounts {
 public:
  explicit WordCounts(const CharTable& table) : table_(table) {}

  /// The words of `text`, normalised, but for those that are too long to be tokens.
  void add(std::string_view text);
  int64_t total() const { return total_; }
  /// In the order of their bytes.
  std::vector<std::pair<std::string, int64_t>> sorted() const;

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  const CharTable& table_;
  std::unordered_map<std::string, int64_t, Hash, std::equal_to<>> counts_;
  int64_t total_ = 0;
};

}  // namespace lockstep
