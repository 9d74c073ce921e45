// The model that the flags ask for.
#pragma once

#include "options.h"

#include "lockstep/models/bert_config.h"
#include "lockstep/train/checkpoint.h"

#include <optional>
#include <string>
#include <vector>

namespace lockstep::train_bert {

/// For a vocabulary of `vocab_size` tokens; while that is not known, as the model has it. Throws
/// ArgumentError for sizes that do not fit together and IoError for a config.json that cannot be
/// read, or is for another vocabulary.
BertConfig model_config(const ModelFlags& flags, std::optional<int64_t> vocab_size = std::nullopt);

/// `config` with the dropout and the pooling that the flags give.
BertConfig with_flags(BertConfig config, const ModelFlags& flags);

/// Throws ArgumentError for sequences that are longer than the model takes.
void check_length(const BertConfig& config, int64_t max_seq_length);

/// "BERT 2 x 128"
std::string describe(const BertConfig& config);

/// What a checkpoint must have in common with a run.
std::vector<RunTrait> config_traits(const BertConfig& config);

}  // namespace lockstep::train_bert
