#include "lockstep/data/text/word_piece.h"

#include "lockstep/data/text/split_words.h"
#include "lockstep/data/text/word_trie.h"

#include <utility>

namespace lockstep {
namespace {

// Stands before the tokens that continue a word: no byte of UTF-8.
constexpr char kInside = '\xFF';

std::shared_ptr<const WordTrie> trie_of(const Vocabulary& vocabulary) {
  std::vector<std::pair<std::string, int32_t>> keys;
  keys.reserve(static_cast<size_t>(vocabulary.size()));
  for (int64_t id = 0; id < vocabulary.size(); ++id) {
    std::string_view token = vocabulary.token(id);
    const bool inside = vocabulary.continues_word(static_cast<int32_t>(id)) && token.size() > 2;
    if (inside) token.remove_prefix(2);
    if (token.size() > 4 * kMaxWordChars) continue;  // no word is that long
    std::string key = inside ? std::string(1, kInside) : std::string();
    keys.emplace_back(key.append(token), static_cast<int32_t>(id));
  }
  return std::make_shared<const WordTrie>(std::move(keys));
}

}  // namespace

WordPiece::WordPiece(Vocabulary vocabulary, const WordPieceOptions& options)
    : vocabulary_(std::move(vocabulary)),
      lower_case_(options.lower_case),
      strip_accents_(options.strip_accents.value_or(options.lower_case)),
      table_(&CharTable::get({.lower_case = lower_case_, .strip_accents = strip_accents_})),
      trie_(trie_of(vocabulary_)),
      inside_(trie_->step(WordTrie::kRoot, static_cast<uint8_t>(kInside))) {}

void WordPiece::add_word(std::string_view word, std::vector<int32_t>& ids) const {
  const size_t before = ids.size();
  const WordTrie& trie = *trie_;
  for (size_t begin = 0; begin < word.size();) {
    uint32_t node = begin == 0 ? WordTrie::kRoot : inside_;
    int32_t longest = -1;
    size_t end = begin;
    for (size_t i = begin; i < word.size() && node != WordTrie::kNone; ++i) {
      node = trie.step(node, static_cast<uint8_t>(word[i]));
      if (node == WordTrie::kNone) break;
      if (const int32_t id = trie.value(node); id >= 0) {
        longest = id;
        end = i + 1;
      }
    }
    if (longest < 0) {
      ids.resize(before);
      break;
    }
    ids.push_back(longest);
    begin = end;
  }
  if (ids.size() == before) ids.push_back(vocabulary_.unknown());
}

void WordPiece::encode(std::string_view text, std::vector<int32_t>& ids) const {
  split_words(text, *table_, [&](std::string_view word) { add_word(word, ids); });
}

std::vector<int32_t> WordPiece::encode(std::string_view text) const {
  std::vector<int32_t> ids;
  encode(text, ids);
  return ids;
}

void WordPiece::encode_with_special(std::string_view text, std::vector<int32_t>& ids) const {
  constexpr size_t kLongest = std::string_view(Vocabulary::kMask).size();
  size_t done = 0;
  for (size_t at = text.find('['); at != text.npos;) {
    const size_t close = text.substr(at, kLongest).find(']');
    const auto id =
        close == text.npos ? std::nullopt : vocabulary_.find(text.substr(at, close + 1));
    if (id && vocabulary_.is_special(*id)) {
      encode(text.substr(done, at - done), ids);
      ids.push_back(*id);
      done = at + close + 1;
      at = text.find('[', done);
    } else {
      at = text.find('[', at + 1);
    }
  }
  encode(text.substr(done), ids);
}

std::string WordPiece::decode(std::span<const int32_t> ids) const {
  std::string text;
  for (const int32_t id : ids) {
    std::string_view token = vocabulary_.token(id);
    if (vocabulary_.continues_word(id) && !text.empty()) {
      token.remove_prefix(2);
    } else if (!text.empty()) {
      text += ' ';
    }
    text += token;
  }
  return text;
}

}  // namespace lockstep
