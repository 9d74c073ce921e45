// BERT's tokenizer: text to token ids (docs/text_data.md).
#pragma once

#include "lockstep/data/text/vocabulary.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

class CharTable;
class WordTrie;

struct WordPieceOptions {
  bool lower_case = true;
  std::optional<bool> strip_accents = std::nullopt;  // not given: as lower_case
};

/// WordPiece as BERT does it: cleaned, ideographs set apart, lower case without accents, split at
/// spaces and punctuation, then the longest token of the vocabulary again and again; [UNK] for a
/// word without one and for words of more than 100 characters. The same ids as Hugging Face's fast
/// BertTokenizer. Immutable, so safe from any thread; copies share the vocabulary.
///
/// Any bytes are taken: what is no UTF-8 counts as U+FFFD, which cleaning drops. Files are checked
/// where they are read.
class WordPiece {
 public:
  explicit WordPiece(Vocabulary vocabulary, const WordPieceOptions& options = {});

  const Vocabulary& vocabulary() const { return vocabulary_; }
  bool lower_case() const { return lower_case_; }
  bool strip_accents() const { return strip_accents_; }

  /// Appends the tokens of `text`, without [CLS] and [SEP]. "[MASK]" in the text is a bracket, a
  /// word and a bracket.
  void encode(std::string_view text, std::vector<int32_t>& ids) const;
  std::vector<int32_t> encode(std::string_view text) const;
  /// The same, but "[MASK]", "[SEP]", "[CLS]", "[PAD]" and "[UNK]" in the text, so written, are
  /// those tokens: for text of the user's own, not for data.
  void encode_with_special(std::string_view text, std::vector<int32_t>& ids) const;

  /// Tokens with a space between words: not the text that they came from, which is lost.
  std::string decode(std::span<const int32_t> ids) const;

 private:
  void add_word(std::string_view word, std::vector<int32_t>& ids) const;

  Vocabulary vocabulary_;
  bool lower_case_, strip_accents_;
  const CharTable* table_;
  std::shared_ptr<const WordTrie> trie_;
  uint32_t inside_;  // where the walk begins within a word
};

}  // namespace lockstep
