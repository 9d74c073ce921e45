// A vocabulary that covers ASCII letters and digits, for tests.
#pragma once

#include "lockstep/base/error.h"
#include "lockstep/data/text/vocabulary.h"
#include "lockstep/data/text/word_piece.h"

#include <string>
#include <vector>

namespace lockstep::testing {

/// The special tokens are not the first ones, so that who counts on that is found out.
inline Vocabulary small_vocabulary() {
  std::vector<std::string> tokens = {"the",   "[PAD]", "[UNK]", "[CLS]",  "[SEP]", "[MASK]",
                                     "##ing", "un",    "##aff", "##able", "word",  "."};
  for (char c = 'a'; c <= 'z'; ++c) {
    tokens.emplace_back(1, c);
    tokens.push_back(std::string("##") + c);
  }
  for (char c = '0'; c <= '9'; ++c) {
    tokens.emplace_back(1, c);
    tokens.push_back(std::string("##") + c);
  }
  return Vocabulary(tokens);
}

inline WordPiece small_tokenizer() { return WordPiece(small_vocabulary()); }

/// The message of the Error that `call` throws; empty: none.
template <class Call>
std::string error_of(Call&& call) {
  try {
    call();
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

inline bool has(const std::string& text, const std::string& part) {
  return text.find(part) != text.npos;
}

}  // namespace lockstep::testing
