// BERT (Devlin et al., "BERT: pre-training of deep bidirectional transformers for language
// understanding", NAACL 2019): the encoder, and the models that pretraining and classification make
// of it. models/bert_exchange.h loads and saves Hugging Face's weights.
//
//   Generator rng(1);
//   BertForPreTraining model(bert_config_by_name("mini"), rng);
//   const auto out = model({.ids = ids, .padding = padding}, masked_positions);
//   bert_pretraining_loss(out, masked_labels, next_labels).backward();
//
// Dropout, in training, draws from the generator that a model was made with, which must outlive it.
#pragma once

#include "lockstep/autograd/variable.h"
#include "lockstep/models/bert_config.h"
#include "lockstep/nn/dropout.h"
#include "lockstep/nn/linear.h"
#include "lockstep/nn/module.h"
#include "lockstep/tensor/random.h"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>

namespace lockstep {

class BertEmbeddings;
class BertEncoder;
class BertMaskedLmHead;

/// B sequences of S tokens, filled up with padding.
struct BertInput {
  Tensor ids;           // i64 [B, S], in [0, vocab_size)
  Tensor types = {};    // i64 [B, S], in [0, type_vocab_size): which sentence; undefined: all 0
  Tensor padding = {};  // u8 [B, S], not 0 where padding; undefined: there is none
};

struct BertOutput {
  Variable sequence;  // [B, S, H]; what it says at padding means nothing
  Variable pooled;    // [B, H]: tanh of a linear layer of the first token (or the tokens' mean:
                      // BertConfig::classifier_pooling); undefined without pooler
  Variable rows;  // `sequence` as [B * S, H]; read by several, its gradient is added up in place
};

/// Embeddings, the layers of the encoder, and the pooler.
class BertModel final : public Module {
 public:
  static constexpr const char* kArchitecture = "BertModel";  // Hugging Face's name

  /// Matrices start from N(0, initializer_range), biases from 0. Throws ArgumentError for a config
  /// that check_bert_config refuses.
  BertModel(const BertConfig& config, Generator& rng, bool with_pooler = true);
  ~BertModel() override;

  /// Throws ArgumentError for ids or types out of range, sequences longer than
  /// max_position_embeddings, and shapes that do not fit together.
  BertOutput forward(const BertInput& input);
  BertOutput operator()(const BertInput& input) { return forward(input); }

  const BertConfig& config() const { return config_; }
  const char* architecture() const { return kArchitecture; }
  const Variable& word_weight() const;  // [V, H]

 private:
  BertConfig config_;
  std::unique_ptr<BertEmbeddings> embeddings_;
  std::unique_ptr<BertEncoder> encoder_;
  std::unique_ptr<Linear> pooler_;  // null: none
  /// Where each sequence begins among the rows of a batch of such a number and length: kept, so
  /// that no step has to bring them to a device.
  std::map<std::pair<int64_t, int64_t>, Tensor> first_tokens_;
};

struct BertPreTrainingOutput {
  Variable prediction_logits;        // [M, V], M masked tokens
  Variable seq_relationship_logits;  // [B, 2]: class 0 is "the second follows the first"; undefined
                                     // without next-sentence prediction
};

/// What a model with forward() -> BertPreTrainingOutput is trained on: the prediction of masked
/// words and, if wanted, of whether the second sentence follows the first.
class BertForPreTraining final : public Module {
 public:
  /// Without next-sentence prediction there is no pooler either: Hugging Face's BertForMaskedLM.
  BertForPreTraining(const BertConfig& config, Generator& rng, bool next_sentence = true);
  ~BertForPreTraining() override;

  /// `masked_positions` i64 [M] number the tokens of the batch: b * S + s. Only these go through
  /// the head. M may be 0: then the head's gradients are zeros.
  BertPreTrainingOutput forward(const BertInput& input, const Tensor& masked_positions);
  BertPreTrainingOutput operator()(const BertInput& input, const Tensor& masked_positions) {
    return forward(input, masked_positions);
  }

  const BertConfig& config() const { return bert_.config(); }
  const char* architecture() const {
    return seq_relationship_ ? "BertForPreTraining" : "BertForMaskedLM";
  }

 private:
  BertModel bert_;
  std::unique_ptr<BertMaskedLmHead> predictions_;
  std::unique_ptr<Linear> seq_relationship_;  // null: none
};

/// The mean cross-entropy of the masked words, plus that of the next sentences if the model
/// predicts them. masked_labels i64 [M], next_labels i64 [B] (not looked at if the model does not).
/// The words' sum is divided by `masked_count` instead of M when given: for ranks whose numbers
/// differ (distributed/global_count.h). With nothing to divide by the words' loss is 0.
Variable bert_pretraining_loss(const BertPreTrainingOutput& output, const Tensor& masked_labels,
                               const Tensor& next_labels = {},
                               std::optional<double> masked_count = std::nullopt);

/// Dropout and a linear layer of the pooled output: one of config.num_labels classes for each
/// sequence.
class BertForSequenceClassification final : public Module {
 public:
  static constexpr const char* kArchitecture = "BertForSequenceClassification";

  BertForSequenceClassification(const BertConfig& config, Generator& rng);
  /// Logits [B, num_labels].
  Variable forward(const BertInput& input);
  Variable operator()(const BertInput& input) { return forward(input); }

  const BertConfig& config() const { return bert_.config(); }
  const char* architecture() const { return kArchitecture; }

 private:
  BertModel bert_;
  Dropout dropout_;
  Linear classifier_;
};

}  // namespace lockstep
