// BERT's pre-training examples out of a corpus.
#pragma once

#include "lockstep/data/text/corpus.h"
#include "lockstep/data/text/masking.h"
#include "lockstep/data/text/text_dataset.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace lockstep {

/// What goes into one sequence.
enum class Packing {
  kSentences,  // lines while they fit, over the ends of documents
  kDocuments,  // lines while they fit, of one document
  kLines,      // one line; what does not fit is left out
  kStream,     // tokens up to the last place, wherever lines end: no padding
};

struct PretrainingOptions {
  int64_t max_seq_length = 128;
  Packing packing = Packing::kSentences;
  /// Pairs of segments, of which every second has another text behind it (Devlin et al. 2019, task
  /// 2). Takes Packing::kDocuments whatever `packing` says.
  bool next_sentence = false;
  MaskingOptions masking = {};
  uint64_t seed = 0;
  /// The stretch of the corpus that is used, in tokens, so that another one can be held out: only
  /// sequences that lie in it. end < 0: to the corpus's end.
  int64_t begin = 0, end = -1;
};

/// Examples "[CLS] text [SEP]", or with next_sentence "[CLS] A [SEP] B [SEP]" and label 0 when B
/// follows A, 1 when it was taken from elsewhere. Which tokens are masked, where a pair is cut and
/// what B is, is drawn anew in each epoch.
///
/// A line that does not fit is cut. With next_sentence A and B are the two parts of what fits into
/// one sequence, cut at a line's end where there is one inside; another B is as long as the true
/// one and of another document, where there is another.
///
/// Throws ArgumentError: max_seq_length below 8, a share of masked tokens outside of [0, 1), and
/// when next_sentence finds fewer than two segments to pair.
std::shared_ptr<const TextDataset> pretraining_dataset(std::shared_ptr<const Corpus> corpus,
                                                       const PretrainingOptions& options);

/// A stretch of tokens that makes a sequence.
struct Segment {
  int64_t begin = 0, end = 0;  // in tokens of the corpus
};

/// The corpus cut into segments of at most `budget` tokens.
std::vector<Segment> pack_segments(const Corpus& corpus, Packing packing, int64_t budget);

}  // namespace lockstep
