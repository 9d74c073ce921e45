// What a BERT model is made of (Devlin et al., "BERT: pre-training of deep bidirectional
// transformers for language understanding", NAACL 2019), with the names and defaults that Hugging
// Face's config.json has.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

/// The defaults are those of bert-base-uncased.
struct BertConfig {
  int64_t vocab_size = 30522;
  int64_t hidden_size = 768;
  int64_t num_hidden_layers = 12;
  int64_t num_attention_heads = 12;  // divides hidden_size
  int64_t intermediate_size = 3072;
  double hidden_dropout_prob = 0.1;
  double attention_probs_dropout_prob = 0.1;
  /// Before a classifier; unset: hidden_dropout_prob.
  std::optional<double> classifier_dropout = std::nullopt;
  int64_t max_position_embeddings = 512;  // the longest sequence
  int64_t type_vocab_size = 2;
  int64_t num_labels = 2;  // of a sequence classification
  double initializer_range = 0.02;
  double layer_norm_eps = 1e-12;
  /// Its row of the word embedding starts as zeros and gets no gradient from lookups; negative:
  /// none.
  int64_t pad_token_id = 0;

  /// What the pooler reads: "cls", the first token, as BERT does; or "mean", over each sequence's
  /// tokens, for what was pre-trained without a use for its first token. ModernBERT's name; Hugging
  /// Face's BERT does not know it and takes "cls".
  std::string classifier_pooling = "cls";

  bool operator==(const BertConfig&) const = default;
};

/// "tiny" (2 layers of 128), "mini" (4 x 256), "small" (4 x 512), "medium" (8 x 512), "base"
/// (12 x 768), "large" (24 x 1024), with hidden / 64 heads and 4 x hidden in between (Turc et al.,
/// "Well-read students learn better", 2019, and the paper's own). Throws ArgumentError that lists
/// the names for any other.
BertConfig bert_config_by_name(const std::string& name);
std::vector<std::string> bert_config_names();

/// Throws ArgumentError for sizes that are not positive or too large together (10^10 parameters),
/// heads that do not divide hidden_size, and probabilities outside [0, 1).
void check_bert_config(const BertConfig& config);

/// The parameters of an encoder with its embeddings, without pooler and heads. `config` is one that
/// check_bert_config passes.
int64_t bert_parameter_count(const BertConfig& config);

/// Reads a config.json of Hugging Face. The number of labels is that of "num_labels" or
/// "id2label"; keys that do not change what is computed are passed over. Throws IoError, led by the
/// path, for a file that is missing, larger than 1 MiB or no JSON object, for values of the wrong
/// kind and for what check_bert_config refuses; UnsupportedError for what these models do not do:
/// another model_type, activation or kind of positions, a decoder, an untied word embedding.
BertConfig read_bert_config(const std::string& path);

/// Writes a config.json for `architecture`, Hugging Face's name of the class: "BertForPreTraining".
/// Throws IoError when it cannot be written.
void write_bert_config(const std::string& path, const BertConfig& config,
                       const std::string& architecture);

}  // namespace lockstep
