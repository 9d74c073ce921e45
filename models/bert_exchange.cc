#include "lockstep/models/bert_exchange.h"

#include "lockstep/io/safetensors.h"
#include "lockstep/models/bert_names.h"
#include "lockstep/tensor/ops/copy.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <set>

namespace lockstep {
namespace {

constexpr const char* kWords = "bert.embeddings.word_embeddings.weight";
constexpr const char* kPositions = "bert.embeddings.position_embeddings.weight";
constexpr const char* kPositionIds = "bert.embeddings.position_ids";
constexpr const char* kDecoder = "cls.predictions.decoder.weight";
constexpr const char* kDecoderBias = "cls.predictions.decoder.bias";
constexpr const char* kPredictionBias = "cls.predictions.bias";

template <class List>
auto find(List& list, const std::string& name) {
  return std::find_if(list.begin(), list.end(), [&](const auto& e) { return e.name == name; });
}

bool same(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::memcmp(a.raw(), b.raw(), a.nbytes()) == 0;
}

/// The file's tensors under usual names, without those that say nothing new.
std::vector<NamedTensor> usual(std::vector<NamedTensor> file) {
  std::set<std::string> seen;
  for (NamedTensor& entry : file) {
    entry.name = usual_name(entry.name);
    check(seen.insert(entry.name).second, "import_bert: two tensors are ", entry.name);
  }
  std::erase_if(file, [](const NamedTensor& e) { return e.name == kPositionIds; });
  // One parameter under two names.
  const auto second = find(file, kDecoderBias);
  if (second == file.end()) return file;
  const auto first = find(file, kPredictionBias);
  if (first == file.end()) {
    second->name = kPredictionBias;
  } else if (same(first->tensor, second->tensor)) {
    file.erase(second);
  }
  return file;
}

void check_words(const Shape& wanted, const Shape& got, const char* name, const char* size) {
  check(wanted == got, "import_bert: ", name, ": wanted ", wanted, ", got ", got,
        "; the file's config.json says which ", size, " it has");
}

/// A decoder that is the word embedding once more is left out; another one is not this model's.
void take_out_decoder(std::vector<NamedTensor>& given) {
  const auto decoder = find(given, kDecoder);
  const auto words = find(given, kWords);
  if (decoder == given.end() || words == given.end()) return;
  check(same(decoder->tensor, words->tensor), "import_bert: ", kDecoder,
        " is not the word embedding; wanted a model whose decoder is tied to it");
  given.erase(decoder);
}

}  // namespace

std::vector<NamedTensor> to_hugging_face(std::span<const NamedTensor> state) {
  std::vector<NamedTensor> out;
  for (const auto& [name, tensor] : state) {
    const std::string theirs = hugging_face_name(name);
    if (name.find(".in_proj_") == std::string::npos) {
      out.push_back({theirs, tensor});
      continue;
    }
    const size_t dot = theirs.rfind('.');
    const int64_t rows = tensor.dim(0) / 3;
    int64_t begin = 0;
    for (const char* part : {".query", ".key", ".value"}) {
      out.push_back(
          {theirs.substr(0, dot) + part + theirs.substr(dot), tensor.slice(begin, begin + rows)});
      begin += rows;
    }
  }
  return out;
}

void export_bert(const std::string& path, std::span<const NamedTensor> state) {
  std::vector<NamedTensor> out = to_hugging_face(state);
  for (NamedTensor& entry : out) entry.tensor = ops::to_device(entry.tensor, Device::cpu());
  // "format" is what other programs' loaders look for.
  write_safetensors(path, out, {{"format", "pt"}});
}

ImportReport import_bert(Module& model, const std::string& path, const LoadOptions& options) {
  std::vector<NamedTensor> file = read_safetensors(path).tensors;
  std::vector<NamedTensor> mine = to_hugging_face(model.state_dict());
  for (NamedTensor& entry : mine) entry.name = usual_name(entry.name);
  try {
    std::vector<NamedTensor> given = usual(std::move(file));
    for (const auto& [name, size] :
         {std::pair{kWords, "vocab_size"}, {kPositions, "max_position_embeddings"}}) {
      const auto wanted = find(mine, name);
      const auto got = find(given, name);
      if (wanted != mine.end() && got != given.end())
        check_words(wanted->tensor.shape(), got->tensor.shape(), name, size);
    }
    take_out_decoder(given);
    StateComparison found = compare_states(mine, given);
    const ImportReport& report = found.report;
    const bool complete =
        report.missing.empty() && report.unexpected.empty() && report.other_shape.empty();
    check(options.strict ? complete : !report.loaded.empty(), "import_bert: ",
          options.strict ? "wanted the file's tensors to be the model's, got " : "", report.text());
    for (auto& [to, from] : found.fitting)
      ops::copy(ops::to_device(from, to.tensor.device()), to.tensor);
    return report;
  } catch (const ArgumentError& error) {
    throw ArgumentError(str(path, ": ", error.what()));
  }
}

void check_bert_file(const std::string& path, const BertConfig& config) {
  const TensorFileHeader header = read_safetensors_header(path);
  const std::string layer = "bert.encoder.layer.";
  std::set<std::string> layers;
  bool has_words = false;
  int64_t parameters = 0;
  for (const TensorEntry& entry : header.tensors) {
    const std::string name = usual_name(entry.name);
    const auto check_rows = [&](const char* which, const char* size, int64_t rows) {
      const Shape wanted{rows, config.hidden_size};
      check(name != which || entry.shape == wanted, path, ": ", name, ": wanted ", wanted,
            " as config.json's ", size, " and hidden_size say, got ", entry.shape);
    };
    check_rows(kWords, "vocab_size", config.vocab_size);
    check_rows(kPositions, "max_position_embeddings", config.max_position_embeddings);
    has_words = has_words || name == kWords;
    if (name.starts_with(kBertPrefix)) parameters += entry.shape.numel();
    if (!name.starts_with(layer)) continue;
    layers.insert(name.substr(layer.size(), name.find('.', layer.size()) - layer.size()));
    check(!name.ends_with("intermediate.dense.weight") ||
              entry.shape == Shape{config.intermediate_size, config.hidden_size},
          path, ": ", name, ": wanted [", config.intermediate_size, ", ", config.hidden_size,
          "] as config.json's intermediate_size and hidden_size say, got ", entry.shape);
  }
  check(has_words, path, ": wanted the weights of a BERT model, got no ", kWords);
  check(static_cast<int64_t>(layers.size()) == config.num_hidden_layers, path, ": wanted ",
        config.num_hidden_layers, " layers as config.json's num_hidden_layers says, got ",
        layers.size());
  // What of the encoder is not looked at above, such as a file without positions.
  const int64_t wanted = bert_parameter_count(config);
  check(parameters >= wanted, path, ": wanted the ", wanted,
        " parameters of an encoder as config.json says, got ", parameters);
}

std::string bert_config_path(const std::string& folder) { return folder + "/config.json"; }
std::string bert_weights_path(const std::string& folder) { return folder + "/model.safetensors"; }

void save_bert(const std::string& folder, const BertConfig& config, const char* architecture,
               std::span<const NamedTensor> state) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) throw IoError(str(folder, ": cannot make the folder: ", failed.message()));
  export_bert(bert_weights_path(folder), state);
  write_bert_config(bert_config_path(folder), config, architecture);
}

}  // namespace lockstep
