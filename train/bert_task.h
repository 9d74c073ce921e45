// What a trainer of BERT does with a batch of text.
#pragma once

#include "lockstep/data/text/text_batch.h"
#include "lockstep/models/bert.h"
#include "lockstep/train/batch_source.h"

#include <cstdint>
#include <utility>

namespace lockstep {

using TextSource = LoaderSource<TextLoader>;

/// Batches that weigh by their masked tokens, so that the loss of a step is the mean over the
/// masked tokens of all ranks and micro-batches.
class MaskedTextSource : public TextSource {
 public:
  /// With `weighs_pairs` next sentences count by their pairs: for training on batches that are not
  /// full.
  MaskedTextSource(TextLoader& loader, Fn fn, bool weighs_pairs = false)
      : TextSource(loader, std::move(fn)), weighs_pairs_(weighs_pairs) {}

  bool weighs() const override { return true; }
  int64_t weight() const override { return loaded_last().masked(); }
  bool weighs_second() const override { return weighs_pairs_; }
  int64_t second_weight() const override { return loaded_last().size(); }

 private:
  const bool weighs_pairs_;
};

/// The batch on `device`; what is there already is not copied.
TextBatch to_device(const TextBatch& batch, Device device);

/// What the model takes of a batch.
BertInput bert_input(const TextBatch& batch);

/// Loss and accuracy of the masked tokens; of the next sentences, if the model predicts them, as
/// BatchResult::second.
BatchResult pretraining_result(BertForPreTraining& model, const TextBatch& batch);

/// Of the classes; batch.labels are below the model's num_labels.
BatchResult classification_result(BertForSequenceClassification& model, const TextBatch& batch);

}  // namespace lockstep
