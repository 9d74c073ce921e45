// What train_bert can be told.
#pragma once

#include "lockstep/train/plan_flags.h"
#include "lockstep/train/trainer_flags.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::train_bert {

/// What a model is made of; what is not given is as in the named one, or in the file.
struct ModelFlags {
  std::string model = "tiny";
  std::string config;  // a config.json; empty: by name
  std::optional<int64_t> hidden_size, num_hidden_layers, num_attention_heads, intermediate_size,
      max_position_embeddings;
  std::optional<double> hidden_dropout_prob, attention_probs_dropout_prob;
  std::optional<std::string> classifier_pooling;  // finetune's
};

/// The texts, and how they become tokens.
struct TextFlags {
  std::vector<std::string> train_files;
  std::vector<std::string> validation_files;  // empty: a part of the training text is held out
  double validation_split_percentage = 5;
  std::string vocab;  // empty: see the command
  bool cased = false;
  int64_t max_seq_length = 128;
};

struct PretrainOptions {
  TextFlags text;
  ModelFlags model;
  TrainerFlags trainer;
  PlanFlags plans;
  int64_t vocab_size = 8192;
  double mlm_probability = 0.15;
  std::optional<double> eval_mlm_probability;  // not given: mlm_probability
  bool whole_word_mask = false;
  bool line_by_line = false;
  bool nsp = false;
};

struct FinetuneOptions {
  TextFlags text;
  ModelFlags model;  // without init_weights
  TrainerFlags trainer;
  PlanFlags plans;
  std::string init_weights;  // as find_trained_bert() takes it
};

struct PredictOptions {
  std::string checkpoint;
  std::vector<std::string> texts;
  int64_t top = 5;
  DeviceFlag device;
};

struct EmbedOptions {
  std::string checkpoint;
  std::string file;    // a text in each line
  std::string output;  // empty: standard output, as TSV
  int64_t max_seq_length = 256;
  int64_t batch_size = 32;
  DeviceFlag device;
};

enum class Command { kPretrain, kFinetune, kPredict, kEmbed };

struct Options {
  Command command = Command::kPretrain;
  PretrainOptions pretrain;
  FinetuneOptions finetune;
  PredictOptions predict;
  EmbedOptions embed;

  Options();  // BERT's defaults
};

/// Fills `options`; returns the exit code when there is nothing more to do (help, a usage error).
std::optional<int> parse(int argc, const char* const* argv, Options& options);

}  // namespace lockstep::train_bert
