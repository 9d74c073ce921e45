#include "lockstep/data/text/pair_counts.h"

#include <algorithm>
#include <utility>

namespace lockstep {

bool PairCounts::Later::operator()(const Pair& a, const Pair& b) const {
  if (a.count != b.count) return a.count < b.count;
  return key(a.first, a.second) > key(b.first, b.second);
}

PairCounts::PairCounts(std::vector<CountedWord> words) : words_(std::move(words)) {
  for (uint32_t w = 0; w < words_.size(); ++w) count(w, 1);
  for (const auto& [k, where] : pairs_) {
    queue_.push({static_cast<uint32_t>(k >> 32), static_cast<uint32_t>(k), where.count});
  }
}

/// Adds the pairs of a word, or takes them away.
void PairCounts::count(uint32_t word, int64_t sign) {
  const auto& [symbols, times] = words_[word];
  for (size_t i = 0; i + 1 < symbols.size(); ++i) {
    Where& where = pairs_[key(symbols[i], symbols[i + 1])];
    where.count += sign * times;
    if (sign > 0 && (where.words.empty() || where.words.back() != word))
      where.words.push_back(word);
  }
}

std::optional<PairCounts::Pair> PairCounts::best() {
  while (!queue_.empty()) {
    Pair top = queue_.top();
    const auto at = pairs_.find(key(top.first, top.second));
    const int64_t now = at == pairs_.end() ? 0 : at->second.count;
    if (top.count == now && now > 0) return top;
    queue_.pop();
    if (now > 0) queue_.push({top.first, top.second, now});
  }
  return std::nullopt;
}

void PairCounts::merge(const Pair& pair, uint32_t symbol) {
  std::vector<uint32_t> words = std::move(pairs_[key(pair.first, pair.second)].words);
  std::sort(words.begin(), words.end());
  words.erase(std::unique(words.begin(), words.end()), words.end());
  std::vector<uint64_t> grown;
  for (const uint32_t w : words) {
    count(w, -1);
    std::vector<uint32_t>& symbols = words_[w].symbols;
    size_t to = 0;
    for (size_t from = 0; from < symbols.size(); ++to) {
      const bool here = from + 1 < symbols.size() && symbols[from] == pair.first &&
                        symbols[from + 1] == pair.second;
      symbols[to] = here ? symbol : symbols[from];
      from += here ? 2 : 1;
    }
    symbols.resize(to);
    count(w, 1);
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      if (symbols[i] == symbol || symbols[i + 1] == symbol) {
        grown.push_back(key(symbols[i], symbols[i + 1]));
      }
    }
  }
  pairs_.erase(key(pair.first, pair.second));
  std::sort(grown.begin(), grown.end());
  grown.erase(std::unique(grown.begin(), grown.end()), grown.end());
  for (const uint64_t k : grown) {
    const auto at = pairs_.find(k);
    if (at == pairs_.end()) continue;
    queue_.push({static_cast<uint32_t>(k >> 32), static_cast<uint32_t>(k), at->second.count});
  }
}

}  // namespace lockstep
