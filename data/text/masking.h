// The masked language model's task (Devlin et al. 2019, 3.1 and A.1).
#pragma once

#include "lockstep/data/text/text_dataset.h"
#include "lockstep/data/text/vocabulary.h"

#include <cstdint>

namespace lockstep {

struct MaskingOptions {
  /// The share of the tokens that are to be predicted; 0: none.
  double mlm_probability = 0.15;
  /// All pieces of a word or none.
  bool whole_word_mask = false;
};

/// Chooses tokens of `example.ids` to be predicted, fills masked_positions and masked_labels, and
/// puts [MASK] in the place of 80 % of them, a random token of the vocabulary in that of 10 %.
/// Never chosen, and never put: the five special tokens. Of n others it chooses
/// round(n * mlm_probability), at least one; with whole words as many words, in random order, as
/// fit into that number, and the first one in any case.
/// What is drawn depends on seed, epoch and index alone.
void mask_tokens(const Vocabulary& vocabulary, const MaskingOptions& options, uint64_t seed,
                 int64_t epoch, int64_t index, TextExample& example);

/// So many tokens of a sequence of at most `max_seq_length` are chosen at most, unless one whole
/// word is longer.
int64_t most_masked(int64_t max_seq_length, double mlm_probability);

/// Throws ArgumentError unless 0 <= mlm_probability < 1, and when the vocabulary has nothing but
/// special tokens.
void check_masking(const Vocabulary& vocabulary, const MaskingOptions& options);

}  // namespace lockstep
