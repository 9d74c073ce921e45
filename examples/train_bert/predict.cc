#include "predict.h"

#include "lockstep/base/error.h"
#include "lockstep/data/text/labelled_text.h"
#include "lockstep/models/bert.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/train/most_likely.h"
#include "lockstep/train/trained_bert.h"

#include <algorithm>
#include <cstdio>

namespace lockstep::train_bert {
namespace {

/// [1, S] with special tokens.
struct Input {
  Tensor ids;
  Tensor masked;  // positions of [MASK], i64 [M]
};

Input input_of(const std::string& text, const WordPiece& tokenizer, int64_t longest,
               Device device) {
  const Vocabulary& vocabulary = tokenizer.vocabulary();
  std::vector<int32_t> tokens{vocabulary.classify()};
  tokenizer.encode_with_special(text, tokens);
  tokens.push_back(vocabulary.separator());
  const auto length = static_cast<int64_t>(tokens.size());
  check(length <= longest, "predict: wanted a text of at most ", longest,
        " tokens, the model's max_position_embeddings, got ", length);
  std::vector<int64_t> ids(tokens.begin(), tokens.end()), masked;
  for (int64_t i = 0; i < length; ++i) {
    if (tokens[static_cast<size_t>(i)] == vocabulary.mask()) masked.push_back(i);
  }
  const auto count = static_cast<int64_t>(masked.size());
  return {ops::to_device(Tensor::from(ids, {1, length}), device),
          ops::to_device(Tensor::from(masked, {count}), device)};
}

void predict_words(const PredictOptions& o, const TrainedBert& trained, const WordPiece& tokenizer,
                   Device device) {
  Generator rng(0);
  BertForPreTraining model(trained.config, rng, trained.predicts_next_sentence);
  load_trained_bert(trained, model);
  model.to(device);
  model.eval();
  const Vocabulary& vocabulary = tokenizer.vocabulary();
  for (const std::string& text : o.texts) {
    const Input input = input_of(text, tokenizer, trained.config.max_position_embeddings, device);
    check(input.masked.numel() > 0, "predict: wanted a text with [MASK] in it, got ", text);
    const Tensor logits = model({.ids = input.ids}, input.masked).prediction_logits.data();
    std::printf("%s\n", text.c_str());
    for (int64_t m = 0; m < logits.dim(0); ++m) {
      if (logits.dim(0) > 1) std::printf(" [MASK] %lld\n", static_cast<long long>(m + 1));
      print_most_likely(logits.slice(m, m + 1), o.top, [&](int64_t id) {
        // A model may have more rows than its vocabulary has tokens.
        return id < vocabulary.size() ? std::string(vocabulary.token(id)) : str("token ", id);
      });
    }
  }
}

void predict_classes(const PredictOptions& o, const TrainedBert& trained,
                     const WordPiece& tokenizer, Device device) {
  Generator rng(0);
  BertForSequenceClassification model(trained.config, rng);
  load_trained_bert(trained, model);
  model.to(device);
  model.eval();
  for (const std::string& text : o.texts) {
    const Input input = input_of(text, tokenizer, trained.config.max_position_embeddings, device);
    std::printf("%s\n", text.c_str());
    print_most_likely(model({.ids = input.ids}).data(), o.top, [&](int64_t i) {
      const auto at = static_cast<size_t>(i);
      return at < trained.class_names.size() ? trained.class_names[at] : str("class ", i);
    });
  }
}

}  // namespace

void predict(const PredictOptions& o) {
  const NoGrad no_grad;
  const Device device = use_device(o.device);
  const TrainedBert trained = find_trained_bert(o.checkpoint);
  const WordPiece tokenizer = read_tokenizer(trained.folder, trained.config);
  if (trained.classifies) return predict_classes(o, trained, tokenizer, device);
  if (!trained.predicts_words) {
    throw IoError(str(trained.weights, ": wanted a model that predicts masked words or classes, ",
                      "got an encoder alone; train_bert embed takes it"));
  }
  predict_words(o, trained, tokenizer, device);
}

}  // namespace lockstep::train_bert
