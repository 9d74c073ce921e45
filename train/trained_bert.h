// A BERT that has been trained, from its files: the output directory of train_bert, a checkpoint in
// it, or a folder of Hugging Face. In all of them config.json and vocab.txt lie beside the weights.
#pragma once

#include "lockstep/data/text/word_piece.h"
#include "lockstep/models/bert_config.h"
#include "lockstep/models/exchange.h"
#include "lockstep/nn/module.h"

#include <string>
#include <vector>

namespace lockstep {

struct TrainedBert {
  std::string weights;  // the safetensors file
  std::string folder;   // where it lies
  BertConfig config;
  // The heads that it has:
  bool predicts_words = false;
  bool predicts_next_sentence = false;
  bool classifies = false;
  std::vector<std::string> class_names = {};  // of a checkpoint of a classification; else empty
};

/// `path` is a folder, with model.safetensors, or best.safetensors or last.safetensors of a run; or
/// one such file. Reads headers and config.json alone. Throws IoError for what is neither, and
/// ArgumentError when the weights are another model's than config.json says.
TrainedBert find_trained_bert(const std::string& path);

/// Loads the weights into `model`, one of models/bert.h: all that it has, or if not strict what is
/// there, at least the encoder. Of a run with --ema-decay its averages. Throws ArgumentError, led
/// by the file, for what does not fit, and IoError.
ImportReport load_trained_bert(const TrainedBert& trained, Module& model,
                               const LoadOptions& options = {});

/// vocab.txt and tokenizer_config.json (whether it is lower case) of a folder, which the model's
/// config must fit. Throws IoError.
WordPiece read_tokenizer(const std::string& folder, const BertConfig& config);
/// Writes the two. Throws IoError.
void write_tokenizer(const std::string& folder, const WordPiece& tokenizer);

std::string vocabulary_path(const std::string& folder);  // vocab.txt

}  // namespace lockstep
