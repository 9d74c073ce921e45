// Token files: whatever parses can be read whole.

// sources: data/text/word_piece.cc data/text/word_trie.cc data/text/char_table.cc

// sources: data/text/utf8.cc data/text/vocabulary.cc io/atomic_file.cc io/file.cc

// sources: base/failpoint.cc base/log.cc

// sources: data/text/token_file.cc

// flags: -lutf8proc

#include "lockstep/base/error.h"
#include "lockstep/data/text/token_file.h"

#include <cstdlib>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  try {
    const TokenShard shard = parse_tokens({data, size}, "fuzz");
    uint32_t sum = 0;
    for (int64_t i = 0; i < shard.tokens; ++i) sum += shard.id(i);
    if (sum == 0xFFFFFFFF) std::abort();  // the ids must be read
    int64_t line = 0, token = 0;
    for (int64_t d = 0; d < shard.documents; ++d) {
      if (shard.document_end(d) <= line) std::abort();
      for (; line < shard.document_end(d); ++line) {
        if (shard.line_end(line) <= token) std::abort();
        token = shard.line_end(line);
      }
    }
    if (line != shard.lines || token != shard.tokens) std::abort();
  } catch (const IoError&) {
  }
  return 0;
}
