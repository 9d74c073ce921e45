// Hugging Face's config.json.
#include "lockstep/base/error.h"
#include "lockstep/io/atomic_file.h"
#include "lockstep/io/file.h"
#include "lockstep/io/json_text.h"
#include "lockstep/models/bert_config.h"

#include <nlohmann/json.hpp>

#include <limits>

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kMostBytes = 1 << 20;
constexpr int64_t kMostNamed = 1000;  // labels; the names of more would fill the file

class Reader {
 public:
  Reader(const std::string& path, const Json& json) : path_(path), json_(json) {}

  /// Null when the key is absent or its value is null.
  const Json* find(const char* key) const {
    const auto at = json_.find(key);
    return at == json_.end() || at->is_null() ? nullptr : &*at;
  }

  [[noreturn]] void refuse(const char* key, const char* wanted, const std::string& got) const {
    throw IoError(str(path_, ": wanted ", wanted, " as ", key, ", got ", got));
  }

  /// Leaves `value` alone when the key is absent.
  void integer(const char* key, int64_t& value, bool required = false) const {
    const Json* at = find(key);
    if (at == nullptr) {
      if (required) refuse(key, "an integer", "none");
      return;
    }
    const bool fits =
        at->is_number_unsigned() ? at->get<uint64_t>() <= kLargest : at->is_number_integer();
    if (!fits) refuse(key, "an integer", json_text(*at));
    value = at->get<int64_t>();
  }

  void number(const char* key, double& value) const {
    const Json* at = find(key);
    if (at == nullptr) return;
    if (!at->is_number()) refuse(key, "a number", json_text(*at));
    value = at->get<double>();
  }

  void text(const char* key, std::string& value) const {
    const Json* at = find(key);
    if (at == nullptr) return;
    if (!at->is_string()) refuse(key, "a string", json_text(*at));
    value = at->get<std::string>();
  }

  /// Absent is as good as `wanted`.
  void only(const char* key, const Json& wanted) const {
    const Json* at = find(key);
    if (at == nullptr || *at == wanted) return;
    throw UnsupportedError(str(path_, ": this BERT has ", key, " ", wanted.dump(),
                               ", and no other; got ", json_text(*at)));
  }

 private:
  static constexpr auto kLargest = uint64_t{std::numeric_limits<int64_t>::max()};

  const std::string& path_;
  const Json& json_;
};

}  // namespace

BertConfig read_bert_config(const std::string& path) {
  const std::vector<uint8_t> bytes = read_file(path, kMostBytes);
  const Json json = Json::parse(bytes.begin(), bytes.end(), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    throw IoError(str(path, ": wanted the config.json of a BERT model, got ",
                      json.is_discarded() ? "what is no JSON, or is cut short" : "other JSON"));
  }
  const Reader in(path, json);
  in.only("model_type", "bert");
  in.only("hidden_act", "gelu");
  in.only("position_embedding_type", "absolute");
  in.only("is_decoder", false);
  in.only("add_cross_attention", false);
  in.only("is_encoder_decoder", false);
  in.only("tie_word_embeddings", true);
  in.only("pruned_heads", Json::object());
  BertConfig c;
  in.integer("vocab_size", c.vocab_size, true);
  in.integer("hidden_size", c.hidden_size, true);
  in.integer("num_hidden_layers", c.num_hidden_layers, true);
  in.integer("num_attention_heads", c.num_attention_heads, true);
  in.integer("intermediate_size", c.intermediate_size, true);
  in.integer("max_position_embeddings", c.max_position_embeddings);
  in.integer("type_vocab_size", c.type_vocab_size);
  in.number("hidden_dropout_prob", c.hidden_dropout_prob);
  in.number("attention_probs_dropout_prob", c.attention_probs_dropout_prob);
  if (in.find("classifier_dropout") != nullptr)
    in.number("classifier_dropout", c.classifier_dropout.emplace());
  in.text("classifier_pooling", c.classifier_pooling);
  in.number("initializer_range", c.initializer_range);
  in.number("layer_norm_eps", c.layer_norm_eps);
  in.integer("pad_token_id", c.pad_token_id);
  if (json.contains("pad_token_id") && json["pad_token_id"].is_null()) c.pad_token_id = -1;
  if (const Json* labels = in.find("id2label")) {
    if (!labels->is_object()) in.refuse("id2label", "an object", json_text(*labels));
    c.num_labels = static_cast<int64_t>(labels->size());
  }
  in.integer("num_labels", c.num_labels);
  try {
    check_bert_config(c);
  } catch (const ArgumentError& error) {
    throw IoError(str(path, ": ", error.what()));
  }
  return c;
}

void write_bert_config(const std::string& path, const BertConfig& c,
                       const std::string& architecture) {
  check_bert_config(c);
  Json json{{"architectures", Json::array({architecture})},
            {"model_type", "bert"},
            {"vocab_size", c.vocab_size},
            {"hidden_size", c.hidden_size},
            {"num_hidden_layers", c.num_hidden_layers},
            {"num_attention_heads", c.num_attention_heads},
            {"intermediate_size", c.intermediate_size},
            {"hidden_act", "gelu"},
            {"hidden_dropout_prob", c.hidden_dropout_prob},
            {"attention_probs_dropout_prob", c.attention_probs_dropout_prob},
            {"classifier_dropout", c.classifier_dropout ? Json(*c.classifier_dropout) : Json()},
            {"max_position_embeddings", c.max_position_embeddings},
            {"type_vocab_size", c.type_vocab_size},
            {"initializer_range", c.initializer_range},
            {"layer_norm_eps", c.layer_norm_eps},
            {"pad_token_id", c.pad_token_id < 0 ? Json() : Json(c.pad_token_id)},
            {"position_embedding_type", "absolute"}};
  if (c.classifier_pooling != "cls") json["classifier_pooling"] = c.classifier_pooling;
  if (c.num_labels > kMostNamed) {
    json["num_labels"] = c.num_labels;
    return write_file_atomically(path, json.dump(2) + "\n");
  }
  Json names = Json::object(), numbers = Json::object();
  for (int64_t i = 0; i < c.num_labels; ++i) {
    names[std::to_string(i)] = str("LABEL_", i);
    numbers[str("LABEL_", i)] = i;
  }
  json["id2label"] = names;
  json["label2id"] = numbers;
  write_file_atomically(path, json.dump(2) + "\n");
}

}  // namespace lockstep
