// vocab.txt and tokenizer_config.json.
#include "lockstep/base/error.h"
#include "lockstep/io/atomic_file.h"
#include "lockstep/io/file.h"
#include "lockstep/io/json_text.h"
#include "lockstep/train/trained_bert.h"

#include <nlohmann/json.hpp>

#include <filesystem>

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kMostConfig = 1 << 20;  // bytes

std::string tokenizer_config_path(const std::string& folder) {
  return folder + "/tokenizer_config.json";
}

/// What a folder says of its tokenizer; without a word, BERT's uncased one.
WordPieceOptions read_options(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return {};
  const std::vector<uint8_t> bytes = read_file(path, kMostConfig);
  const Json json = Json::parse(bytes.begin(), bytes.end(), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) throw IoError(str(path, ": wanted a JSON object"));
  WordPieceOptions options;
  const auto flag = [&](const char* name) -> std::optional<bool> {
    const auto found = json.find(name);
    if (found == json.end() || found->is_null()) return std::nullopt;
    if (!found->is_boolean()) {
      throw IoError(str(path, ": ", name, ": wanted true or false, got ", json_text(*found)));
    }
    return found->get<bool>();
  };
  options.lower_case = flag("do_lower_case").value_or(options.lower_case);
  options.strip_accents = flag("strip_accents");
  return options;
}

}  // namespace

std::string vocabulary_path(const std::string& folder) { return folder + "/vocab.txt"; }

WordPiece read_tokenizer(const std::string& folder, const BertConfig& config) {
  const std::string path = vocabulary_path(folder);
  Vocabulary vocabulary = Vocabulary::read(path);
  if (vocabulary.size() > config.vocab_size) {
    throw IoError(str(path, ": wanted at most the ", config.vocab_size,
                      " tokens that config.json says, got ", vocabulary.size()));
  }
  return WordPiece(std::move(vocabulary), read_options(tokenizer_config_path(folder)));
}

void write_tokenizer(const std::string& folder, const WordPiece& tokenizer) {
  tokenizer.vocabulary().write(vocabulary_path(folder));
  const Json json{{"tokenizer_class", "BertTokenizer"},
                  {"do_lower_case", tokenizer.lower_case()},
                  {"strip_accents", tokenizer.strip_accents()}};
  write_file_atomically(tokenizer_config_path(folder), json.dump(2) + "\n");
}

}  // namespace lockstep
