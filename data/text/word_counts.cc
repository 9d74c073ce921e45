#include "lockstep/data/text/word_counts.h"

#include "lockstep/data/text/split_words.h"

#include <algorithm>

namespace lockstep {

void WordCounts::add(std::string_view text) {
  split_words(text, table_, [&](std::string_view word) {
    if (word.empty()) return;
    ++total_;
    const auto at = counts_.find(word);
    if (at != counts_.end()) {
      ++at->second;
    } else {
      counts_.emplace(word, 1);
    }
  });
}

std::vector<std::pair<std::string, int64_t>> WordCounts::sorted() const {
  std::vector<std::pair<std::string, int64_t>> all(counts_.begin(), counts_.end());
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace lockstep
