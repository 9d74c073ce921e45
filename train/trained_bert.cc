#include "lockstep/train/trained_bert.h"

#include "lockstep/base/error.h"
#include "lockstep/io/safetensors.h"
#include "lockstep/models/bert_exchange.h"
#include "lockstep/train/checkpoint.h"

#include <algorithm>
#include <filesystem>

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr const char* kEncoder = "bert.";

std::string weights_in(const std::string& folder) {
  std::error_code ignored;
  for (const char* name : {"model.safetensors", "best.safetensors", "last.safetensors"}) {
    const std::string path = folder + "/" + name;
    if (fs::exists(path, ignored)) return path;
  }
  throw IoError(str(folder, ": wanted a folder with model.safetensors, or the output directory of ",
                    "train_bert with best.safetensors or last.safetensors, got neither"));
}

/// Parameters of the encoder, with "bert." before them or not, as `model` names them.
std::vector<NamedTensor> as_in(const Module& model, std::vector<NamedTensor> given) {
  const std::vector<NamedTensor> mine = model.state_dict();
  const bool alone = std::none_of(mine.begin(), mine.end(), [](const NamedTensor& tensor) {
    return tensor.name.starts_with(kEncoder);
  });
  if (!alone) return given;
  std::erase_if(given, [](const NamedTensor& t) { return !t.name.starts_with(kEncoder); });
  for (NamedTensor& tensor : given) tensor.name.erase(0, std::string(kEncoder).size());
  return given;
}

ImportReport load_checkpoint(const std::string& path, Module& model, const LoadOptions& options) {
  Checkpoint checkpoint = read_checkpoint(path);
  take_averages(checkpoint);
  const std::vector<NamedTensor> mine = model.state_dict();
  StateComparison found = compare_states(mine, as_in(model, std::move(checkpoint.model)));
  const ImportReport& report = found.report;
  const bool all = report.missing.empty() && report.unexpected.empty();
  if (!report.other_shape.empty() || found.fitting.empty() || (options.strict && !all)) {
    throw ArgumentError(str(path, ": ", report.text()));
  }
  std::vector<NamedTensor> fitting;
  for (const auto& [own, given] : found.fitting) fitting.push_back({own.name, given});
  model.load_state_dict(fitting, {.strict = false});
  return report;
}

}  // namespace

TrainedBert find_trained_bert(const std::string& path) {
  std::error_code ignored;
  TrainedBert trained;
  const bool is_folder = fs::is_directory(path, ignored);
  trained.weights = is_folder ? weights_in(path) : path;
  trained.folder = is_folder ? path : fs::path(path).parent_path().string();
  if (trained.folder.empty()) trained.folder = ".";
  const TensorFileHeader header = read_safetensors_header(trained.weights);
  trained.config = read_bert_config(bert_config_path(trained.folder));
  if (is_checkpoint(header.metadata)) {
    trained.class_names = read_checkpoint_header(trained.weights).class_names;
  } else {
    check_bert_file(trained.weights, trained.config);
  }
  // Ours and Hugging Face's names.
  for (const TensorEntry& entry : header.tensors) {
    const auto is = [&](const char* name) { return entry.name == name; };
    trained.predicts_words |= is("predictions.bias") || is("cls.predictions.bias");
    trained.predicts_next_sentence |=
        is("seq_relationship.weight") || is("cls.seq_relationship.weight");
    trained.classifies |= is("classifier.weight");
  }
  return trained;
}

ImportReport load_trained_bert(const TrainedBert& trained, Module& model,
                               const LoadOptions& options) {
  if (is_checkpoint(read_safetensors_header(trained.weights).metadata)) {
    return load_checkpoint(trained.weights, model, options);
  }
  return import_bert(model, trained.weights, options);
}

}  // namespace lockstep
