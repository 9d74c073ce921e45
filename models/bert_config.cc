#include "lockstep/models/bert_config.h"

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

struct Named {
  const char* name;
  int64_t layers, hidden;
};

constexpr Named kCatalogue[] = {{"tiny", 2, 128},   {"mini", 4, 256},  {"small", 4, 512},
                                {"medium", 8, 512}, {"base", 12, 768}, {"large", 24, 1024}};

// Small enough that no product of the sizes below overflows, larger than any BERT.
constexpr int64_t kMostRows = int64_t{1} << 24;
constexpr int64_t kMostColumns = int64_t{1} << 17;
constexpr int64_t kMostLayers = 4096;
constexpr int64_t kMostLabels = int64_t{1} << 20;
constexpr int64_t kMostParameters = 10'000'000'000;

void check_size(const char* name, int64_t value, int64_t most) {
  check(value > 0 && value <= most, "BertConfig: wanted a ", name, " from 1 to ", most, ", got ",
        value);
}

void check_probability(const char* name, double value) {
  check(value >= 0 && value < 1, "BertConfig: wanted a ", name, " in [0, 1), got ", value);
}

}  // namespace

BertConfig bert_config_by_name(const std::string& name) {
  std::string known;
  for (const Named& entry : kCatalogue) {
    if (name == entry.name) {
      return {.hidden_size = entry.hidden,
              .num_hidden_layers = entry.layers,
              .num_attention_heads = entry.hidden / 64,
              .intermediate_size = 4 * entry.hidden};
    }
    known += str(known.empty() ? "" : ", ", entry.name);
  }
  throw ArgumentError(str("bert_config_by_name: no size is named ", name, "; there are ", known));
}

std::vector<std::string> bert_config_names() {
  std::vector<std::string> names;
  for (const Named& entry : kCatalogue) names.emplace_back(entry.name);
  return names;
}

void check_bert_config(const BertConfig& c) {
  check_size("vocab_size", c.vocab_size, kMostRows);
  check_size("hidden_size", c.hidden_size, kMostColumns);
  check_size("num_hidden_layers", c.num_hidden_layers, kMostLayers);
  check_size("num_attention_heads", c.num_attention_heads, kMostColumns);
  check_size("intermediate_size", c.intermediate_size, kMostColumns);
  check_size("max_position_embeddings", c.max_position_embeddings, kMostRows);
  check_size("type_vocab_size", c.type_vocab_size, kMostRows);
  check_size("num_labels", c.num_labels, kMostLabels);
  check(c.hidden_size % c.num_attention_heads == 0,
        "BertConfig: wanted num_attention_heads that divide hidden_size, got ",
        c.num_attention_heads, " and ", c.hidden_size);
  check(bert_parameter_count(c) + (c.num_labels + c.hidden_size) * c.hidden_size <= kMostParameters,
        "BertConfig: wanted sizes of at most ", kMostParameters, " parameters, got ",
        bert_parameter_count(c));
  check_probability("hidden_dropout_prob", c.hidden_dropout_prob);
  check_probability("attention_probs_dropout_prob", c.attention_probs_dropout_prob);
  check(c.classifier_pooling == "cls" || c.classifier_pooling == "mean",
        "BertConfig: wanted a classifier_pooling of cls or mean, got ", c.classifier_pooling);
  if (c.classifier_dropout) check_probability("classifier_dropout", *c.classifier_dropout);
  check(c.initializer_range >= 0 && c.initializer_range <= 1e6,
        "BertConfig: wanted an initializer_range of 0 or more, got ", c.initializer_range);
  check(c.layer_norm_eps > 0 && c.layer_norm_eps < 1,
        "BertConfig: wanted a layer_norm_eps in (0, 1), got ", c.layer_norm_eps);
  check(c.pad_token_id < c.vocab_size, "BertConfig: wanted a pad_token_id below vocab_size ",
        c.vocab_size, ", got ", c.pad_token_id);
}

int64_t bert_parameter_count(const BertConfig& c) {
  const int64_t h = c.hidden_size, wide = c.intermediate_size;
  const int64_t embeddings = (c.vocab_size + c.max_position_embeddings + c.type_vocab_size + 2) * h;
  // Four projections, two of the feed-forward, two normalisations.
  const int64_t layer = 4 * (h * h + h) + (2 * h * wide + wide + h) + 4 * h;
  return embeddings + c.num_hidden_layers * layer;
}

}  // namespace lockstep
