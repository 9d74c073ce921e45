#include "model_config.h"

#include "lockstep/base/error.h"
#include "lockstep/base/str.h"
#include "lockstep/models/bert_exchange.h"

namespace lockstep::train_bert {

BertConfig with_flags(BertConfig config, const ModelFlags& flags) {
  config.hidden_dropout_prob = flags.hidden_dropout_prob.value_or(config.hidden_dropout_prob);
  config.attention_probs_dropout_prob =
      flags.attention_probs_dropout_prob.value_or(config.attention_probs_dropout_prob);
  config.classifier_pooling = flags.classifier_pooling.value_or(config.classifier_pooling);
  return config;
}

BertConfig model_config(const ModelFlags& flags, std::optional<int64_t> vocab_size) {
  BertConfig config = bert_config_by_name(flags.model);
  if (!flags.config.empty()) {
    config = read_bert_config(flags.config);
    if (vocab_size && config.vocab_size != *vocab_size) {
      throw IoError(str(flags.config, ": wanted a vocab_size of ", *vocab_size,
                        ", as the vocabulary has, got ", config.vocab_size,
                        "; give the vocabulary of the model by --vocab, or another --vocab-size"));
    }
  }
  config.vocab_size = vocab_size.value_or(config.vocab_size);
  config = with_flags(config, flags);
  if (flags.hidden_size) {
    config.hidden_size = *flags.hidden_size;
    // As in the named models, where nothing else is said.
    config.num_attention_heads = std::max<int64_t>(1, config.hidden_size / 64);
    config.intermediate_size = 4 * config.hidden_size;
  }
  config.num_hidden_layers = flags.num_hidden_layers.value_or(config.num_hidden_layers);
  config.num_attention_heads = flags.num_attention_heads.value_or(config.num_attention_heads);
  config.intermediate_size = flags.intermediate_size.value_or(config.intermediate_size);
  config.max_position_embeddings =
      flags.max_position_embeddings.value_or(config.max_position_embeddings);
  check_bert_config(config);
  return config;
}

void check_length(const BertConfig& config, int64_t max_seq_length) {
  check(max_seq_length <= config.max_position_embeddings, "--max-seq-length: wanted at most ",
        config.max_position_embeddings, ", the model's max_position_embeddings, got ",
        max_seq_length);
}

std::string describe(const BertConfig& config) {
  return str("BERT ", config.num_hidden_layers, " x ", config.hidden_size);
}

std::vector<RunTrait> config_traits(const BertConfig& config) {
  return {{"--model", "bert"},
          {"--hidden-size", str(config.hidden_size)},
          {"--num-hidden-layers", str(config.num_hidden_layers)},
          {"--num-attention-heads", str(config.num_attention_heads)},
          {"--intermediate-size", str(config.intermediate_size)},
          {"--max-position-embeddings", str(config.max_position_embeddings)},
          {"--hidden-dropout-prob", str(config.hidden_dropout_prob)},
          {"--attention-probs-dropout-prob", str(config.attention_probs_dropout_prob)},
          {"--classifier-pooling", config.classifier_pooling}};
}

}  // namespace lockstep::train_bert
