#include "lockstep/train/text_task.h"

#include "lockstep/autograd/ops/loss.h"
#include "lockstep/base/error.h"
#include "lockstep/models/bert.h"
#include "lockstep/tensor/ops/copy.h"

#include <memory>
#include <utility>

namespace lockstep {
namespace {

constexpr const char* kPrefix = "bert-";
constexpr int64_t kMaskEvery = 8, kMaskId = 1;

int64_t masked_count(const TextTask& task) { return (task.length + kMaskEvery - 1) / kMaskEvery; }

BertConfig config_of(const TextTask& task) {
  check(task.model.starts_with(kPrefix), "TextTask: wanted a model such as bert-tiny, got ",
        task.model);
  BertConfig config = bert_config_by_name(task.model.substr(std::string(kPrefix).size()));
  config.vocab_size = task.words;
  config.max_position_embeddings = task.length;
  config.hidden_dropout_prob = config.attention_probs_dropout_prob = task.dropout;
  return config;
}

/// The model draws its weights from what it is made with, which has to outlive it.
struct OwnGenerator {
  Generator rng;
  BertForPreTraining model;
  explicit OwnGenerator(const TextTask& task)
      : rng(task.seed), model(config_of(task), rng, /*next_sentence=*/false) {}
};

/// Every eighth token of each row, in [rows * length].
Tensor masked_positions(int64_t rows, int64_t length) {
  std::vector<int64_t> positions;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t s = 0; s < length; s += kMaskEvery) positions.push_back(row * length + s);
  }
  const auto count = static_cast<int64_t>(positions.size());
  return Tensor::from(positions, {count});
}

}  // namespace

std::vector<std::string> text_model_names() {
  std::vector<std::string> names = bert_config_names();
  for (std::string& name : names) name = kPrefix + name;
  return names;
}

LossModel make_loss_model(const TextTask& task) {
  const auto owned = std::make_shared<OwnGenerator>(task);
  BertForPreTraining* model = &owned->model;
  return {std::shared_ptr<Module>(owned, model), [model](const Batch& batch) {
            const Tensor positions = ops::to_device(
                masked_positions(batch.inputs.dim(0), batch.inputs.dim(1)), batch.inputs.device());
            const auto out = (*model)({.ids = batch.inputs}, positions);
            return cross_entropy(out.prediction_logits, batch.targets.reshape({-1}));
          }};
}

Batch synthetic_batch(const TextTask& task, int64_t samples, uint64_t number) {
  check(samples >= 1 && task.length >= 1 && task.words > kMaskId + 1,
        "synthetic_batch: wanted at least 1 sequence of 1 token of 3 words, got ", samples, " of ",
        task.length, " of ", task.words);
  // The bits of a stream apart from every other (task, number).
  const auto mixed = philox4x32(task.seed, number);
  Generator rng(uint64_t{mixed[0]} << 32 | mixed[1]);
  const PhiloxRange random = rng.take(samples * task.length);
  std::vector<int64_t> ids, labels;
  for (int64_t i = 0; i < samples * task.length; ++i) {
    const int64_t word = kMaskId + 1 + random.bits(i) % (task.words - kMaskId - 1);
    const bool masked = i % task.length % kMaskEvery == 0;
    if (masked) labels.push_back(word);
    ids.push_back(masked ? kMaskId : word);
  }
  return {Tensor::from(ids, {samples, task.length}),
          Tensor::from(labels, {samples, masked_count(task)})};
}

}  // namespace lockstep
