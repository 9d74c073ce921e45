// A WordPiece vocabulary for a text.
#pragma once

#include "lockstep/data/text/vocabulary.h"
#include "lockstep/data/text/word_piece.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace lockstep {

struct VocabularyOptions {
  int64_t size = 8000;  // tokens at most
  WordPieceOptions words = {};
  int64_t min_frequency = 2;      // a pair that is there less often is not joined
  int64_t alphabet_limit = 1000;  // the most frequent characters are kept
  /// Called now and then with what is being done.
  std::function<void(const std::string& text)> progress = nullptr;
};

/// The special tokens, the characters of the text in their order, those that are inside of words
/// with "##" before them, and then what comes of joining the two neighbours that are side by side
/// most often, again and again: as Hugging Face's WordPieceTrainer does. Fewer tokens than `size`
/// where no pair is left. The same bytes for the same text and options, whatever the order of
/// its lines. A word with a character beyond alphabet_limit is left out.
///
/// Memory: for the distinct words and their pairs, whatever the size of the files. Throws IoError
/// for a file that cannot be read, is empty or no UTF-8; ArgumentError for a size that does not
/// hold the alphabet, and for a negative option.
Vocabulary train_vocabulary(const std::vector<std::string>& paths,
                            const VocabularyOptions& options);

}  // namespace lockstep
