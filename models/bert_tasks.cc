#include "lockstep/autograd/ops/elementwise.h"
#include "lockstep/autograd/ops/index.h"
#include "lockstep/autograd/ops/loss.h"
#include "lockstep/models/bert.h"
#include "lockstep/models/bert_init.h"
#include "lockstep/models/bert_masked_lm.h"

namespace lockstep {

BertForPreTraining::BertForPreTraining(const BertConfig& config, Generator& rng, bool next_sentence)
    : bert_(config, rng, next_sentence),
      predictions_(std::make_unique<BertMaskedLmHead>(config, rng)) {
  register_module("bert", bert_);
  register_module("predictions", *predictions_);
  if (!next_sentence) return;
  seq_relationship_ = std::make_unique<Linear>(
      LinearSpec{.in_features = config.hidden_size, .out_features = 2}, rng);
  init_bert(*seq_relationship_, config.initializer_range, rng);
  register_module("seq_relationship", *seq_relationship_);
}

BertForPreTraining::~BertForPreTraining() = default;

BertPreTrainingOutput BertForPreTraining::forward(const BertInput& input,
                                                  const Tensor& masked_positions) {
  check(masked_positions.defined() && masked_positions.ndim() == 1,
        "BertForPreTraining: wanted masked_positions i64 [M], got ",
        masked_positions.defined() ? masked_positions.shape().to_string() : "none");
  const BertOutput hidden = bert_(input);
  BertPreTrainingOutput out;
  out.prediction_logits =
      predictions_->forward(embedding(hidden.rows, masked_positions), bert_.word_weight());
  if (seq_relationship_) out.seq_relationship_logits = seq_relationship_->forward(hidden.pooled);
  return out;
}

Variable bert_pretraining_loss(const BertPreTrainingOutput& output, const Tensor& masked_labels,
                               const Tensor& next_labels, std::optional<double> masked_count) {
  check(!masked_count || *masked_count >= 0,
        "bert_pretraining_loss: wanted a masked_count of 0 or more, got ",
        masked_count.value_or(0));
  const Variable loss = masked_count ? scale(cross_entropy(output.prediction_logits, masked_labels,
                                                           {.reduction = Reduction::kSum}),
                                             *masked_count > 0 ? 1 / *masked_count : 0)
                                     : cross_entropy(output.prediction_logits, masked_labels);
  if (!output.seq_relationship_logits.defined()) return loss;
  check(next_labels.defined(),
        "bert_pretraining_loss: the model predicts next sentences; wanted next_labels i64 [B], got "
        "none");
  return loss + cross_entropy(output.seq_relationship_logits, next_labels);
}

BertForSequenceClassification::BertForSequenceClassification(const BertConfig& config,
                                                             Generator& rng)
    : bert_(config, rng),
      dropout_(config.classifier_dropout.value_or(config.hidden_dropout_prob), rng),
      classifier_({.in_features = config.hidden_size, .out_features = config.num_labels}, rng) {
  init_bert(classifier_, config.initializer_range, rng);
  register_module("bert", bert_);
  register_module("dropout", dropout_);
  register_module("classifier", classifier_);
}

Variable BertForSequenceClassification::forward(const BertInput& input) {
  return classifier_(dropout_(bert_(input).pooled));
}

}  // namespace lockstep
