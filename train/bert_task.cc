#include "lockstep/train/bert_task.h"

#include "lockstep/autograd/ops/loss.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tensor/ops/metrics.h"

namespace lockstep {
namespace {

LossPart part(const Variable& logits, const Tensor& labels, int64_t counted) {
  return {.loss = cross_entropy(logits, labels),
          .correct = ops::correct_count(logits.data(), labels),
          .counted = counted};
}

BatchResult result_of(LossPart first, const TextBatch& batch) {
  return {.loss = std::move(first.loss),
          .correct = first.correct,
          .counted = first.counted,
          .tokens = batch.tokens};
}

}  // namespace

TextBatch to_device(const TextBatch& batch, Device device) {
  TextBatch there = batch;
  for (Tensor* tensor : there.tensors()) {
    if (tensor->defined()) *tensor = ops::to_device(*tensor, device);
  }
  return there;
}

BertInput bert_input(const TextBatch& batch) {
  return {.ids = batch.ids, .types = batch.types, .padding = batch.padding};
}

BatchResult pretraining_result(BertForPreTraining& model, const TextBatch& batch) {
  const BertPreTrainingOutput out = model(bert_input(batch), batch.masked_positions);
  BatchResult result =
      result_of(part(out.prediction_logits, batch.masked_labels, batch.masked()), batch);
  if (out.seq_relationship_logits.defined()) {
    result.second = part(out.seq_relationship_logits, batch.labels, batch.size());
  }
  return result;
}

BatchResult classification_result(BertForSequenceClassification& model, const TextBatch& batch) {
  return result_of(part(model(bert_input(batch)), batch.labels, batch.size()), batch);
}

}  // namespace lockstep
