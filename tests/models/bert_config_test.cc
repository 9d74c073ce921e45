#include "lockstep/models/bert_config.h"

#include "lockstep/base/error.h"
#include "lockstep/models/bert.h"
#include "lockstep/tests/support/temp_dir.h"

#include <doctest/doctest.h>

#include <string>

namespace lockstep {
namespace {

using testing::TempDir;
using testing::write_file;

/// A file that is read, with `more` at its end.
std::string text(const std::string& more = "") {
  return R"({"vocab_size": 60, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4,
            "intermediate_size": 48)" +
         (more.empty() ? "" : ", " + more) + "}";
}

BertConfig read(const TempDir& dir, const std::string& json) {
  write_file(dir / "config.json", json);
  return read_bert_config(dir / "config.json");
}

TEST_CASE("transformers' own file is read") {
  const BertConfig c = read_bert_config("tests/golden/bert_small_hf/config.json");
  CHECK(c == BertConfig{.vocab_size = 60,
                        .hidden_size = 32,
                        .num_hidden_layers = 2,
                        .num_attention_heads = 4,
                        .intermediate_size = 48,
                        .hidden_dropout_prob = 0,
                        .attention_probs_dropout_prob = 0,
                        .max_position_embeddings = 20});
}

TEST_CASE("what is written is read again; what is left out has its default") {
  const TempDir dir;
  const BertConfig c{.vocab_size = 99,
                     .hidden_size = 24,
                     .num_hidden_layers = 3,
                     .num_attention_heads = 2,
                     .intermediate_size = 7,
                     .hidden_dropout_prob = 0.25,
                     .attention_probs_dropout_prob = 0.125,
                     .classifier_dropout = 0.5,
                     .max_position_embeddings = 33,
                     .type_vocab_size = 5,
                     .num_labels = 4,
                     .initializer_range = 0.03,
                     .layer_norm_eps = 1e-6,
                     .pad_token_id = -1,
                     .classifier_pooling = "mean"};
  write_bert_config(dir / "out", c, "BertModel");
  CHECK(read_bert_config(dir / "out") == c);
  const BertConfig defaults = read(dir, text());
  CHECK(defaults.max_position_embeddings == 512);
  CHECK(defaults.pad_token_id == 0);
  CHECK(defaults.num_labels == 2);
  CHECK(read(dir, text(R"("id2label": {"0": "a", "1": "b", "2": "c"})")).num_labels == 3);
  CHECK(read(dir, text(R"("classifier_dropout": null, "model_type": "bert", "use_cache": true)")) ==
        defaults);
}

TEST_CASE("many classes are written as their number, which is read again") {
  const TempDir dir;
  const BertConfig c{.num_labels = 100'000};
  write_bert_config(dir / "out", c, "BertForSequenceClassification");
  CHECK(read_bert_config(dir / "out") == c);
}

TEST_CASE("files that are none, and values of another kind, are refused by name") {
  const TempDir dir;
  const auto refused = [&](const std::string& json, const char* words) {
    CHECK_THROWS_WITH_AS(read(dir, json), doctest::Contains(words), IoError);
  };
  CHECK_THROWS_AS(read_bert_config(dir / "none"), IoError);
  refused("", "config.json: wanted the config.json of a BERT model, got what is no JSON");
  refused(text().substr(0, 50), "cut short");
  refused("[1]", "other JSON");
  refused("{}", "wanted an integer as vocab_size, got none");
  refused(text(R"("vocab_size": "60")"), "wanted an integer as vocab_size, got \"60\"");
  refused(text(R"("vocab_size": 60.5)"), "got 60.5");
  refused(text(R"("vocab_size": 18446744073709551615)"), "wanted an integer as vocab_size");
  refused(text(R"("layer_norm_eps": true)"), "wanted a number as layer_norm_eps, got true");
  refused(text(R"("id2label": [1])"), "id2label");
  const std::string nested = std::string(400'000, '[') + std::string(400'000, ']');
  refused(text(R"("layer_norm_eps": )" + nested),
          "wanted a number as layer_norm_eps, got an array");
  refused(std::string(2'000'000, ' '), "config.json");
}

TEST_CASE("what these models do not do is told apart") {
  const TempDir dir;
  for (const char* more : {R"("hidden_act": "relu")", R"("model_type": "roberta")",
                           R"("position_embedding_type": "relative_key")", R"("is_decoder": true)",
                           R"("add_cross_attention": true)", R"("tie_word_embeddings": false)",
                           R"("pruned_heads": {"0": [1]})"}) {
    CAPTURE(more);
    CHECK_THROWS_AS(read(dir, text(more)), UnsupportedError);
  }
  CHECK_THROWS_WITH_AS(read(dir, text(R"("hidden_act": "relu")")),
                       doctest::Contains("hidden_act \"gelu\", and no other; got \"relu\""),
                       UnsupportedError);
}

TEST_CASE("sizes are checked before anything is made of them") {
  const TempDir dir;
  Generator rng(1);
  const auto refused = [&](BertConfig c, const char* words) {
    CHECK_THROWS_WITH_AS(BertModel(c, rng), doctest::Contains(words), ArgumentError);
    CHECK_THROWS_WITH_AS(write_bert_config(dir / "out", c, "BertModel"), doctest::Contains(words),
                         ArgumentError);
  };
  refused({.vocab_size = 0}, "vocab_size");
  refused({.hidden_size = -768}, "hidden_size");
  refused({.num_attention_heads = 7}, "num_attention_heads that divide hidden_size, got 7 and 768");
  refused({.max_position_embeddings = int64_t{1} << 40}, "max_position_embeddings");
  refused({.vocab_size = 1 << 24, .hidden_size = 1 << 16, .num_attention_heads = 1},
          "10000000000 parameters");
  refused({.hidden_dropout_prob = 1}, "hidden_dropout_prob");
  refused({.attention_probs_dropout_prob = -0.1}, "attention_probs_dropout_prob");
  refused({.classifier_dropout = 2}, "classifier_dropout");
  refused({.layer_norm_eps = 0}, "layer_norm_eps");
  refused({.classifier_pooling = "max"}, "classifier_pooling of cls or mean, got max");
  refused({.pad_token_id = 30522}, "pad_token_id");
  CHECK_THROWS_WITH_AS(read(dir, text(R"("num_attention_heads": 5)")),
                       doctest::Contains("config.json: BertConfig: wanted num_attention_heads"),
                       IoError);
}

TEST_CASE("sizes by name; parameters are counted") {
  CHECK(bert_config_names().size() == 6);
  CHECK(bert_config_by_name("base") == BertConfig{});
  CHECK(bert_config_by_name("mini").num_attention_heads == 4);
  CHECK(bert_config_by_name("large").intermediate_size == 4096);
  CHECK_THROWS_WITH_AS(bert_config_by_name("huge"), doctest::Contains("tiny, mini, small"),
                       ArgumentError);
  // transformers' count of bert-base-uncased without pooler.
  CHECK(bert_parameter_count(BertConfig{}) == 109'482'240 - 768 * 769);
  Generator rng(1);
  const BertConfig tiny = bert_config_by_name("tiny");
  const BertModel model(tiny, rng, /*with_pooler=*/false);
  int64_t count = 0;
  for (const Variable& p : model.parameters()) count += p.data().numel();
  CHECK(count == bert_parameter_count(tiny));
}

}  // namespace
}  // namespace lockstep
