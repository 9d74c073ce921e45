// Byte pair encoding (Sennrich et al., "Neural machine translation of rare words with subword
// units", ACL 2016): which two neighbouring symbols are most often side by side.
#pragma once

#include <cstdint>
#include <optional>
#include <queue>
#include <unordered_map>
#include <vector>

namespace lockstep {

struct CountedWord {
  std::vector<uint32_t> symbols;
  int64_t count = 0;
};

class PairCounts {
 public:
  explicit PairCounts(std::vector<CountedWord> words);

  struct Pair {
    uint32_t first = 0, second = 0;
    int64_t count = 0;
  };
  /// The most frequent pair; of equals the one with the smaller first symbol, then second. None
  /// when no word has two symbols.
  std::optional<Pair> best();
  /// Puts `symbol` in the place of the pair, in all words, from left to right.
  void merge(const Pair& pair, uint32_t symbol);

 private:
  struct Where {
    int64_t count = 0;
    std::vector<uint32_t> words;  // that have or had it
  };
  struct Later {  // whether `a` comes out of the queue after `b`
    bool operator()(const Pair& a, const Pair& b) const;
  };
  static uint64_t key(uint32_t first, uint32_t second) { return uint64_t{first} << 32 | second; }
  void count(uint32_t word, int64_t sign);

  std::vector<CountedWord> words_;
  std::unordered_map<uint64_t, Where> pairs_;
  // Counts may have shrunk since they were put there; never grown.
  std::priority_queue<Pair, std::vector<Pair>, Later> queue_;
};

}  // namespace lockstep
