// BERT against transformers' (tests/golden/make_bert.py), and what its forms have in common.
#include "lockstep/models/bert.h"

#include "lockstep/autograd/ops/loss.h"
#include "lockstep/autograd/ops/reduce.h"
#include "lockstep/io/safetensors.h"
#include "lockstep/models/bert_exchange.h"
#include "lockstep/optim/adam.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tests/models/small_bert.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

namespace lockstep {
namespace {

using testing::kSmallBert;
using testing::relative_difference;
using testing::small_bert_config;
using testing::SmallBatch;

const TensorFile& golden() {
  static const TensorFile file = read_safetensors("tests/golden/bert_small.safetensors");
  return file;
}

BertInput golden_input() {
  return {
      .ids = golden().at("ids"), .types = golden().at("types"), .padding = golden().at("padding")};
}

/// The gradients under Hugging Face's names.
std::vector<NamedTensor> gradients(const Module& model) {
  std::vector<NamedTensor> list;
  for (const auto& [name, parameter] : model.named_parameters()) {
    REQUIRE_MESSAGE(parameter.grad().has_value(), name);
    list.push_back({name, *parameter.grad()});
  }
  return to_hugging_face(list);
}

double largest(const Tensor& x) {
  double most = 0;
  for (double v : ops::cast(x, DType::kF64).to_vector<double>()) most = std::max(most, std::abs(v));
  return most;
}

/// Every tensor of `list` equals the golden one of its name. A bias of the keys shifts all scores
/// of a query alike, which softmax does not see: its gradient is 0 but for rounding, and is held
/// against that of the queries' bias; what AdamW makes of f32's rounding is within `of_keys`.
void check_all(const std::vector<NamedTensor>& list, const std::string& prefix, double tolerance,
               double of_keys) {
  size_t wanted = 0;
  for (const auto& entry : golden().tensors) wanted += entry.name.starts_with(prefix) ? 1 : 0;
  CHECK(list.size() == wanted);
  for (const auto& [name, tensor] : list) {
    CAPTURE(name);
    const size_t key = name.find("key.bias");
    if (prefix.ends_with("grad.") && key != std::string::npos) {
      const Tensor& queries = golden().at(prefix + name.substr(0, key) + "query.bias");
      CHECK(largest(tensor) <= tolerance * largest(queries));
    } else {
      CHECK(relative_difference(tensor, golden().at(prefix + name)) <=
            (key == std::string::npos ? tolerance : of_keys));
    }
  }
}

// The stored values are f64's rounded to f32: 6e-8.
TEST_CASE("pretraining: transformers' logits, loss and every gradient; five steps of AdamW") {
  for (const auto& [dtype, tolerance] :
       {std::pair{DType::kF32, 1e-5}, std::pair{DType::kF64, 1e-6}}) {
    CAPTURE(std::string(name_of(dtype)));
    Generator rng(1);
    const auto model = load_bert<BertForPreTraining>(kSmallBert, rng);
    model->to(dtype);
    AdamW optimizer(model->named_parameters(), {.lr = 1e-3, .eps = 1e-6, .weight_decay = 0.01});
    for (int step = 0; step < 5; ++step) {
      optimizer.zero_grad();
      const auto out = (*model)(golden_input(), golden().at("masked_positions"));
      const Variable loss =
          bert_pretraining_loss(out, golden().at("masked_labels"), golden().at("next_labels"));
      loss.backward();
      if (step == 0) {
        CHECK(relative_difference(out.prediction_logits.data(), golden().at("logits")) <=
              tolerance);
        CHECK(relative_difference(out.seq_relationship_logits.data(), golden().at("next_logits")) <=
              tolerance);
        CHECK(relative_difference(loss.data(), golden().at("loss")) <= tolerance);
        check_all(gradients(*model), "grad.", tolerance, tolerance);
      }
      optimizer.step();
    }
    check_all(to_hugging_face(model->state_dict()), "after.", 1e-5,
              dtype == DType::kF32 ? 1e-3 : 1e-5);
  }
}

TEST_CASE("sequence classification: transformers' logits, loss and every gradient") {
  for (const auto& [dtype, tolerance] :
       {std::pair{DType::kF32, 1e-5}, std::pair{DType::kF64, 1e-6}}) {
    CAPTURE(std::string(name_of(dtype)));
    BertConfig config = small_bert_config();
    config.num_labels = 3;
    Generator rng(1);
    BertForSequenceClassification model(config, rng);
    const ImportReport report =
        import_bert(model, bert_weights_path(kSmallBert), {.strict = false});
    CHECK(report.missing == std::vector<std::string>{"classifier.weight", "classifier.bias"});
    model.load_state_dict(
        std::vector<NamedTensor>{{"classifier.weight", golden().at("class.classifier.weight")},
                                 {"classifier.bias", golden().at("class.classifier.bias")}},
        {.strict = false});
    model.to(dtype);
    const Variable logits = model(golden_input());
    const Variable loss = cross_entropy(logits, golden().at("class.labels"));
    loss.backward();
    CHECK(relative_difference(logits.data(), golden().at("class.logits")) <= tolerance);
    CHECK(relative_difference(loss.data(), golden().at("class.loss")) <= tolerance);
    check_all(gradients(model), "class.grad.", tolerance, tolerance);
  }
}

TEST_CASE("without a masked token the head gets zeros, and the rest goes on") {
  for (bool next_sentence : {true, false}) {
    Generator rng(1);
    BertForPreTraining model(small_bert_config(), rng, next_sentence);
    const SmallBatch batch(4, 10, 3);
    const auto out = model(batch.input, Tensor::empty({0}, DType::kI64));
    CHECK(out.prediction_logits.shape() == Shape{0, 60});
    const Tensor none = Tensor::empty({0}, DType::kI64);
    for (std::optional<double> count : {std::optional<double>(), std::optional(0.0)}) {
      const auto again = model(batch.input, none);
      CHECK(std::isfinite(
          bert_pretraining_loss(again, none, batch.next_labels, count).data().item()));
    }
    bert_pretraining_loss(out, none, batch.next_labels, 5).backward();
    for (const auto& [name, parameter] : model.named_parameters()) {
      CAPTURE(name);
      REQUIRE(parameter.grad().has_value());
      const double most = largest(*parameter.grad());
      if (name.starts_with("predictions.") || !next_sentence) CHECK(most == 0);
      if (next_sentence && name == "bert.pooler.weight") CHECK(most > 0);
    }
  }
}

TEST_CASE("the decoder is the word embedding: one parameter, whose hook fires once a backward") {
  Generator rng(1);
  BertForPreTraining model(small_bert_config(), rng);
  const SmallBatch batch(4, 10, 3);
  int rows_of_vocabulary = 0, fired = 0;
  std::vector<HookHandle> hooks;
  for (auto& [name, parameter] : model.named_parameters()) {
    if (parameter.shape() != Shape{60, 32}) continue;
    ++rows_of_vocabulary;
    hooks.push_back(parameter.on_grad_ready([&](const Variable&) { ++fired; }));
  }
  for (int i = 1; i <= 2; ++i) {
    bert_pretraining_loss(model(batch.input, batch.masked_positions), batch.masked_labels,
                          batch.next_labels)
        .backward();
    CHECK(fired == i);
  }
  CHECK(rows_of_vocabulary == 1);
}

TEST_CASE("a loss divided by the caller's count adds up to the mean") {
  Generator rng(1);
  BertForPreTraining model(small_bert_config(), rng, /*next_sentence=*/false);
  const SmallBatch batch(4, 10, 3);
  const auto out = model(batch.input, batch.masked_positions);
  const double mean = bert_pretraining_loss(out, batch.masked_labels).data().item();
  const auto count = static_cast<double>(batch.masked_labels.numel());
  CHECK(bert_pretraining_loss(out, batch.masked_labels, {}, 4 * count).data().item() ==
        doctest::Approx(mean / 4));
}

/// Initialised as every other of them.
std::unique_ptr<BertModel> pooling_by(const char* pooling) {
  BertConfig config = small_bert_config();
  config.classifier_pooling = pooling;
  Generator rng(1);
  return std::make_unique<BertModel>(config, rng);
}

TEST_CASE("mean pooling is the first token's on sequences of one token, and else another") {
  const auto first = pooling_by("cls"), mean = pooling_by("mean");
  const auto difference = [&](const BertInput& input) {
    return relative_difference((*mean)(input).pooled.data(), (*first)(input).pooled.data());
  };
  CHECK(difference({.ids = Tensor::from<int64_t>({7, 9, 11}, {3, 1})}) < 1e-6);
  // All but the first of each row is padding.
  CHECK(difference({.ids = Tensor::from<int64_t>({7, 0, 9, 0}, {2, 2}),
                    .padding = Tensor::from<uint8_t>({0, 1, 0, 1}, {2, 2})}) < 1e-6);
  CHECK(difference({.ids = Tensor::from<int64_t>({7, 5, 9, 4}, {2, 2})}) > 1e-3);
}

TEST_CASE("what padding holds changes nothing; types left out are zeros") {
  const char* pooling = "cls";
  SUBCASE("the first token") {}
  SUBCASE("the mean") { pooling = "mean"; }
  const auto owned = pooling_by(pooling);
  BertModel& model = *owned;
  SmallBatch a(3, 8, 5), b(3, 8, 5);
  const uint8_t* padding = a.input.padding.data<uint8_t>();
  int changed = 0;
  for (int64_t i = 0; i < 24; ++i) {
    if (padding[i] == 0) continue;
    b.input.ids.mutable_data<int64_t>()[i] = 17;
    ++changed;
  }
  REQUIRE(changed > 2);
  const Tensor of_a = model(a.input).pooled.data(), of_b = model(b.input).pooled.data();
  CHECK(relative_difference(of_a, of_b) == 0);
  a.input.padding = Tensor();
  CHECK(relative_difference(of_a, model(a.input).pooled.data()) > 1e-4);

  b.input.types = Tensor::zeros({3, 8}, DType::kI64);
  const Tensor with_zeros = model(b.input).pooled.data();
  b.input.types = Tensor();
  CHECK(relative_difference(model(b.input).pooled.data(), with_zeros) < 1e-6);
  Generator rng(1);
  CHECK(!BertModel(small_bert_config(), rng, false)(b.input).pooled.defined());
}

TEST_CASE("initial values: matrices N(0, range), biases 0, normalisations 1 and 0") {
  BertConfig config = bert_config_by_name("tiny");
  config.vocab_size = 500;
  config.initializer_range = 0.03;
  Generator rng(1);
  BertForPreTraining model(config, rng);
  for (const auto& [name, parameter] : model.named_parameters()) {
    CAPTURE(name);
    double square = 0;
    const auto values = parameter.data().to_vector<float>();
    for (float v : values) square += double{v} * double{v};
    const double deviation = std::sqrt(square / static_cast<double>(values.size()));
    if (parameter.data().ndim() == 2) {
      // Five standard errors of the smallest, 256 numbers.
      CHECK(deviation == doctest::Approx(0.03).epsilon(values.size() < 1000 ? 0.22 : 0.05));
    } else {
      CHECK(deviation == (name.ends_with("norm.weight") ? 1 : 0));
    }
  }
  CHECK(largest(model.named_parameters()[0].parameter.data().slice(0, 1)) == 0);  // [PAD]
}

TEST_CASE("dropout draws in training alone, from the model's generator") {
  BertConfig config = small_bert_config();
  config.hidden_dropout_prob = config.attention_probs_dropout_prob = 0.2;
  Generator rng(1);
  BertForSequenceClassification model(config, rng);
  const SmallBatch batch(2, 8, 5);
  const Generator before = rng;
  const Tensor first = model(batch.input).data(), second = model(batch.input).data();
  CHECK(relative_difference(first, second) > 1e-3);
  rng = before;
  CHECK(relative_difference(model(batch.input).data(), first) == 0);
  model.eval();
  CHECK(relative_difference(model(batch.input).data(), model(batch.input).data()) == 0);
}

TEST_CASE("what does not fit is refused") {
  Generator rng(1);
  BertForPreTraining model(small_bert_config(), rng);
  const SmallBatch batch(2, 8, 5);
  const auto refused = [&](const BertInput& input, const char* words) {
    CHECK_THROWS_WITH_AS(model(input, batch.masked_positions), doctest::Contains(words),
                         ArgumentError);
  };
  refused({}, "got none");
  refused({.ids = Tensor::zeros({2, 21}, DType::kI64)}, "at most 20 tokens");
  refused({.ids = Tensor::zeros({16}, DType::kI64)}, "wanted ids i64 [B, S], got i64 [16]");
  refused({.ids = ops::full({2, 8}, 60, DType::kI64)}, "60");
  refused({.ids = batch.input.ids, .types = Tensor::zeros({2, 7}, DType::kI64)}, "types");
  refused({.ids = batch.input.ids, .types = ops::full({2, 8}, 2, DType::kI64)}, "2");
  refused({.ids = batch.input.ids, .padding = Tensor::zeros({2, 7}, DType::kU8)}, "padding");
  CHECK_THROWS_AS(model(batch.input, Tensor()), ArgumentError);
  CHECK_THROWS_AS(model(batch.input, ops::full({1}, 16, DType::kI64)), ArgumentError);
  const auto out = model(batch.input, batch.masked_positions);
  CHECK_THROWS_WITH_AS(bert_pretraining_loss(out, batch.masked_labels),
                       doctest::Contains("next_labels"), ArgumentError);
  CHECK_THROWS_AS(bert_pretraining_loss(out, batch.masked_labels, batch.next_labels, -1),
                  ArgumentError);
}

}  // namespace
}  // namespace lockstep
