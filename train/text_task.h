// A BERT by its name, and texts that need no files.
#pragma once

#include "lockstep/data/loader.h"
#include "lockstep/train/replica.h"

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

struct TextTask {
  std::string model = "bert-tiny";  // one of text_model_names()
  int64_t length = 32;              // tokens of a sequence, of which every eighth is masked
  int64_t words = 1000;             // of the vocabulary
  double dropout = 0;               // of hidden values and of attention's probabilities
  uint64_t seed = 1;
};

/// "bert-tiny" to "bert-large".
std::vector<std::string> text_model_names();

/// The same weights for the same task. The loss is that of the masked tokens of synthetic_batch().
LossModel make_loss_model(const TextTask& task);

/// `samples` sequences, the same for the same task and number: inputs are token ids i64
/// [samples, length], targets i64 [samples, masked tokens].
Batch synthetic_batch(const TextTask& task, int64_t samples, uint64_t number);

}  // namespace lockstep
