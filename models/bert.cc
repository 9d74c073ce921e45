#include "lockstep/models/bert.h"

#include "lockstep/autograd/ops/activation.h"
#include "lockstep/autograd/ops/index.h"
#include "lockstep/autograd/ops/layout.h"
#include "lockstep/models/bert_embeddings.h"
#include "lockstep/models/bert_encoder.h"
#include "lockstep/models/bert_init.h"
#include "lockstep/models/sentence_embedding.h"
#include "lockstep/tensor/ops/copy.h"

namespace lockstep {
namespace {

const BertConfig& checked(const BertConfig& config) {
  check_bert_config(config);
  return config;
}

Tensor first_tokens(int64_t batch, int64_t length, Device device) {
  Tensor first = Tensor::empty({batch}, DType::kI64);
  int64_t* at = first.mutable_data<int64_t>();
  for (int64_t b = 0; b < batch; ++b) at[b] = b * length;
  return ops::to_device(first, device);
}

}  // namespace

BertModel::BertModel(const BertConfig& config, Generator& rng, bool with_pooler)
    : config_(checked(config)),
      embeddings_(std::make_unique<BertEmbeddings>(config, rng)),
      encoder_(std::make_unique<BertEncoder>(config, rng)) {
  register_module("embeddings", *embeddings_);
  register_module("encoder", *encoder_);
  if (!with_pooler) return;
  pooler_ = std::make_unique<Linear>(
      LinearSpec{.in_features = config.hidden_size, .out_features = config.hidden_size}, rng);
  init_bert(*pooler_, config.initializer_range, rng);
  register_module("pooler", *pooler_);
}

BertModel::~BertModel() = default;

const Variable& BertModel::word_weight() const { return embeddings_->word_weight(); }

BertOutput BertModel::forward(const BertInput& input) {
  const Variable x = embeddings_->forward(input.ids, input.types);
  const int64_t batch = x.dim(0), length = x.dim(1), hidden = x.dim(2);
  BertOutput out;
  out.rows = reshape(encoder_->forward(x, input.padding), {batch * length, hidden});
  out.sequence = reshape(out.rows, {batch, length, hidden});
  if (pooler_) {
    Variable read;
    if (config_.classifier_pooling == "mean") {
      read = mean_of_tokens(out.sequence, input.padding);
    } else {
      Tensor& first = first_tokens_[{batch, length}];
      if (!first.defined() || first.device() != x.device()) {
        first = first_tokens(batch, length, x.device());
      }
      read = embedding(out.rows, first);
    }
    out.pooled = tanh(pooler_->forward(read));
  }
  return out;
}

}  // namespace lockstep
