// The texts of a run: tokenizer, training and validation data.
#pragma once

#include "options.h"

#include "lockstep/data/text/corpus.h"
#include "lockstep/data/text/text_batch.h"
#include "lockstep/data/text/word_piece.h"
#include "lockstep/train/checkpoint.h"

#include <memory>
#include <string>
#include <vector>

namespace lockstep::train_bert {

struct TextData {
  std::shared_ptr<const WordPiece> tokenizer;
  std::shared_ptr<const TextDataset> train, validation;
  std::string description;       // "1234567 tokens ... training and ... validation sequences"
  std::vector<RunTrait> traits;  // what a checkpoint must have in common with it
  double unigram_loss = 0;       // of pretraining: see unigram_loss()
};

/// For pretraining. `kept`, if not empty, is the text of the vocab.txt that the run to go on from
/// has written. Throws IoError and ArgumentError.
TextData open_pretraining_text(const PretrainOptions& options, const std::string& kept);

/// For fine-tuning. Throws likewise.
TextData open_labelled_text(const FinetuneOptions& options, const WordPiece& tokenizer);

/// The mean loss of predicting each token of `to` by how often it is among those of `from`, each
/// counted once more than it is there: what a model has to beat to have learned of context. Ranges
/// of tokens.
struct TokenRange {
  const Corpus& corpus;
  int64_t begin, end;
};
double unigram_loss(const TokenRange& from, const TokenRange& to);

/// Which of `data` a rank sees: of training data in whole batches alone.
DistributedSampler text_sampler(const TextDataset& data, const TrainerFlags& flags, bool train,
                                int rank, int world);

}  // namespace lockstep::train_bert
