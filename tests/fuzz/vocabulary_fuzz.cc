// vocab.txt: what parses says of each token where it is, and tokenises.

// sources: data/text/word_piece.cc data/text/word_trie.cc data/text/char_table.cc

// sources: data/text/utf8.cc data/text/vocabulary.cc io/atomic_file.cc io/file.cc

// sources: base/failpoint.cc base/log.cc

// flags: -lutf8proc

#include "lockstep/base/error.h"
#include "lockstep/data/text/word_piece.h"

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  // Most inputs lack a special token; with them behind, more gets further.
  static const std::string kSpecial = "\n[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
  for (const std::string& behind : {std::string(), kSpecial}) {
    try {
      const Vocabulary vocabulary = Vocabulary::parse(std::string(text) + behind, "fuzz");
      for (int64_t i = 0; i < vocabulary.size(); ++i) {
        if (vocabulary.find(vocabulary.token(i)) != static_cast<int32_t>(i)) std::abort();
      }
      const WordPiece tokenizer(vocabulary, {.lower_case = false});
      for (const int32_t id : tokenizer.encode(text)) {
        if (id < 0 || id >= vocabulary.size()) std::abort();
      }
      // A word that is a token is that token.
      for (int64_t i = 0; i < vocabulary.size(); ++i) {
        const std::string_view token = vocabulary.token(i);
        bool letters = token.size() <= 100;
        for (const char c : token) letters = letters && c >= 'a' && c <= 'z';
        if (letters && tokenizer.encode(token) != std::vector{static_cast<int32_t>(i)})
          std::abort();
      }
    } catch (const IoError&) {
    }
  }
  return 0;
}
