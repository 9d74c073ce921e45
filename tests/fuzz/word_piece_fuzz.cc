// Any bytes as text, with the four settings of case and accents: ids are the vocabulary's, there
// are no more of them than characters can make, and special tokens appear when asked for alone.

// sources: data/text/word_piece.cc data/text/word_trie.cc data/text/char_table.cc

// sources: data/text/utf8.cc data/text/vocabulary.cc io/atomic_file.cc io/file.cc

// sources: base/failpoint.cc base/log.cc

// flags: -lutf8proc

#include "lockstep/data/text/utf8.h"
#include "lockstep/data/text/word_piece.h"

#include <cstdlib>

namespace {

using namespace lockstep;

Vocabulary make_vocabulary() {
  std::vector<std::string> tokens = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
  for (char32_t c = 0x21; c < 0x30000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    char text[4];
    const std::string token(text, encode_utf8(c, text));
    tokens.push_back(token);
    if (c < 0x3000) tokens.push_back("##" + token);
  }
  tokens.insert(tokens.end(), {"the", "##ing", "word", "##\xCC\x81\xCC\x81"});
  return Vocabulary(tokens);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Vocabulary vocabulary = make_vocabulary();
  static const WordPiece tokenizers[4] = {
      WordPiece(vocabulary, {.lower_case = true}), WordPiece(vocabulary, {.lower_case = false}),
      WordPiece(vocabulary, {.lower_case = true, .strip_accents = false}),
      WordPiece(vocabulary, {.lower_case = false, .strip_accents = true})};
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const WordPiece& tokenizer : tokenizers) {
    std::vector<int32_t> ids = tokenizer.encode(text);
    // A code point decomposes into four at most.
    if (ids.size() > 4 * size) std::abort();
    for (const int32_t id : ids) {
      if (id < 0 || id >= vocabulary.size()) std::abort();
      if (vocabulary.is_special(id) && id != vocabulary.unknown()) std::abort();
    }
    if (invalid_utf8_at(tokenizer.decode(ids))) std::abort();
    ids.clear();
    tokenizer.encode_with_special(text, ids);
    for (const int32_t id : ids) {
      if (id < 0 || id >= vocabulary.size()) std::abort();
    }
  }
  return 0;
}
