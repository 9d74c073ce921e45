#include "lockstep/data/text/train_vocabulary.h"

#include "lockstep/base/error.h"
#include "lockstep/data/text/pair_counts.h"
#include "lockstep/data/text/text_file.h"
#include "lockstep/data/text/utf8.h"
#include "lockstep/data/text/word_counts.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

namespace lockstep {
namespace {

using Words = std::vector<std::pair<std::string, int64_t>>;

Words count_words(const std::vector<std::string>& paths, const VocabularyOptions& options) {
  const bool lower = options.words.lower_case;
  WordCounts counts(CharTable::get(
      {.lower_case = lower, .strip_accents = options.words.strip_accents.value_or(lower)}));
  for (const std::string& path : paths) {
    const TextFile file(path);
    int64_t told = 0;
    file.for_each_line([&](std::string_view line, int64_t number) {
      counts.add(line);
      if (options.progress && number - told >= 100'000) {
        options.progress(str("reading ", path, ": line ", told = number));
      }
    });
  }
  if (counts.total() == 0) {
    throw IoError(str("text: ", paths[0], ": wanted text, got no word in it"));
  }
  return counts.sorted();
}

/// Calls `each(std::string_view character, bool first)` for the characters of a word.
template <class Each>
void for_each_character(std::string_view word, Each&& each) {
  const char* const end = word.data() + word.size();
  for (const char* p = word.data(); p < end;) {
    const DecodedChar c = decode_utf8(p, end);
    each(std::string_view(p, c.bytes), p == word.data());
    p += c.bytes;
  }
}

/// The `limit` most frequent characters, in their order; of equals those that come first.
std::vector<std::string> alphabet_of(const Words& words, int64_t limit) {
  std::map<std::string, int64_t, std::less<>> counts;
  for (const auto& [word, times] : words) {
    for_each_character(word, [&](std::string_view c, bool) {
      const auto at = counts.find(c);
      (at == counts.end() ? counts.emplace(c, 0).first : at)->second += times;
    });
  }
  std::vector<std::pair<int64_t, std::string>> order;
  for (const auto& [character, times] : counts) order.emplace_back(-times, character);
  std::sort(order.begin(), order.end());
  if (static_cast<int64_t>(order.size()) > limit) order.resize(static_cast<size_t>(limit));
  std::vector<std::string> alphabet;
  for (const auto& [times, character] : order) alphabet.push_back(character);
  std::sort(alphabet.begin(),
            alphabet.end());  // in UTF-8 the order of bytes is that of code points
  return alphabet;
}

/// The tokens so far.
class Tokens {
 public:
  uint32_t add(std::string_view token) {
    const auto [at, added] = ids_.emplace(token, static_cast<uint32_t>(tokens_.size()));
    if (added) tokens_.emplace_back(token);
    return at->second;
  }
  std::optional<uint32_t> find(const std::string& token) const {
    const auto at = ids_.find(token);
    return at == ids_.end() ? std::nullopt : std::optional(at->second);
  }
  const std::string& operator[](uint32_t id) const { return tokens_[id]; }
  int64_t size() const { return static_cast<int64_t>(tokens_.size()); }
  const std::vector<std::string>& all() const { return tokens_; }

 private:
  std::vector<std::string> tokens_;
  std::unordered_map<std::string, uint32_t> ids_;
};

/// The words as tokens of one character each; adds the tokens that are missing.
std::vector<CountedWord> spell(const Words& words, const std::vector<std::string>& alphabet,
                               Tokens& tokens) {
  const auto known = [&](std::string_view c) {
    return std::binary_search(alphabet.begin(), alphabet.end(), c);
  };
  const auto token_of = [](std::string_view c, bool first) {
    return first ? std::string(c) : "##" + std::string(c);
  };
  std::set<std::string> inside;
  Words kept;
  for (const auto& word : words) {
    bool all_known = true;
    for_each_character(word.first, [&](std::string_view c, bool) { all_known &= known(c); });
    if (!all_known) continue;
    kept.push_back(word);
    for_each_character(word.first, [&](std::string_view c, bool first) {
      if (!first) inside.insert(token_of(c, false));
    });
  }
  for (const std::string& c : alphabet) tokens.add(c);
  for (const std::string& c : inside) tokens.add(c);
  std::vector<CountedWord> spelled;
  for (const auto& [word, times] : kept) {
    CountedWord counted{.symbols = {}, .count = times};
    for_each_character(word, [&](std::string_view c, bool first) {
      counted.symbols.push_back(*tokens.find(token_of(c, first)));
    });
    spelled.push_back(std::move(counted));
  }
  return spelled;
}

}  // namespace

Vocabulary train_vocabulary(const std::vector<std::string>& paths,
                            const VocabularyOptions& options) {
  check(!paths.empty(), "train_vocabulary: wanted at least one file, got none");
  check(options.min_frequency >= 1 && options.alphabet_limit >= 1,
        "train_vocabulary: wanted a minimum frequency and an alphabet of at least 1, got ",
        options.min_frequency, " and ", options.alphabet_limit);
  const Words words = count_words(paths, options);
  Tokens tokens;
  for (const char* special : {Vocabulary::kPad, Vocabulary::kUnknown, Vocabulary::kClassify,
                              Vocabulary::kSeparator, Vocabulary::kMask}) {
    tokens.add(special);
  }
  PairCounts pairs(spell(words, alphabet_of(words, options.alphabet_limit), tokens));
  check(tokens.size() <= options.size, "train_vocabulary: wanted a size of at least ",
        tokens.size(), ", which the special tokens and characters take, got ", options.size,
        "; ask for more tokens or a smaller alphabet");
  int64_t told = 0;
  while (tokens.size() < options.size) {
    const auto best = pairs.best();
    if (!best || best->count < options.min_frequency) break;
    // The second is always inside of the word, the first only if it says so.
    pairs.merge(*best, tokens.add(tokens[best->first] + tokens[best->second].substr(2)));
    if (options.progress && tokens.size() - told >= 500) {
      options.progress(str("joining: ", told = tokens.size(), "/", options.size, " tokens"));
    }
  }
  return Vocabulary(tokens.all());
}

}  // namespace lockstep
