// BERT from and to Hugging Face: config.json, and safetensors files with the names and shapes of
// the state dicts of transformers' BertModel, BertForPreTraining, BertForMaskedLM and
// BertForSequenceClassification, which on the other side are
//
//   BertForPreTraining.from_pretrained(folder)
//   model.save_pretrained(folder)
//
// Queries, keys and values are three matrices there and one here.
#pragma once

#include "lockstep/models/bert.h"
#include "lockstep/models/exchange.h"
#include "lockstep/tensor/named_tensor.h"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

/// A BERT's state (from Module::state_dict) under Hugging Face's names; what a BertModel alone has
/// is named without a leading "bert.", as there. The tensors are views of the model's memory.
std::vector<NamedTensor> to_hugging_face(std::span<const NamedTensor> state);

/// Writes to_hugging_face(state) to `path`, as transformers writes its own files: the decoder,
/// which is the word embedding, is left out. Throws IoError when it cannot be written.
void export_bert(const std::string& path, std::span<const NamedTensor> state);

/// Loads a file of Hugging Face into `model`, converting f16, bf16 and f64 to the model's dtype.
/// Names may have the leading "bert." or lack it, normalisations may be named gamma and beta;
/// position_ids and a decoder that equals the word embedding are passed over. Strict:
/// ArgumentError, led by the file's name, for names (Hugging Face's) that are missing or unexpected
/// and shapes that differ; nothing is changed then. Otherwise what fits by name and shape is
/// loaded, such as all but the heads, and the report says what not; ArgumentError when nothing
/// does. In both cases ArgumentError for embeddings of other numbers of words or positions than the
/// config's, and for a decoder that is not the word embedding. Throws IoError for a malformed file.
ImportReport import_bert(Module& model, const std::string& path, const LoadOptions& options = {});

/// Throws ArgumentError, led by the path, unless the file at `path` holds as large embeddings, as
/// many layers and as many parameters as `config` says of an encoder. Reads the header alone: what
/// the config asks for is then no more than what the file has, before memory is taken for it, but
/// for the heads.
void check_bert_file(const std::string& path, const BertConfig& config);

/// The paths in a model's folder.
std::string bert_config_path(const std::string& folder);   // config.json
std::string bert_weights_path(const std::string& folder);  // model.safetensors

/// The model that a folder holds, as save_bert or Hugging Face's save_pretrained wrote it.
/// `report`, when given, gets what import_bert found.
///   const auto model = load_bert<BertForPreTraining>("bert-base-uncased", rng);
template <class Model>
std::unique_ptr<Model> load_bert(const std::string& folder, Generator& rng,
                                 const LoadOptions& options = {}, ImportReport* report = nullptr) {
  const BertConfig config = read_bert_config(bert_config_path(folder));
  check_bert_file(bert_weights_path(folder), config);
  auto model = std::make_unique<Model>(config, rng);
  const ImportReport found = import_bert(*model, bert_weights_path(folder), options);
  if (report != nullptr) *report = found;
  return model;
}

/// Writes config.json and model.safetensors into `folder`, which is made if need be. `model` is one
/// of models/bert.h.
void save_bert(const std::string& folder, const BertConfig& config, const char* architecture,
               std::span<const NamedTensor> state);
template <class Model>
void save_bert(const std::string& folder, const Model& model) {
  save_bert(folder, model.config(), model.architecture(), model.state_dict());
}

}  // namespace lockstep
