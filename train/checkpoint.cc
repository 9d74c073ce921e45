#include "lockstep/train/checkpoint.h"

#include "lockstep/base/error.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kMetadataKey = "lockstep";
constexpr const char* kOptimizerPrefix = "optimizer/";
constexpr int kFormat = 1;

Tensor take(TensorFile& file, const std::string& name, DType dtype, int64_t columns) {
  const Tensor tensor = file.at(name);
  if (tensor.dtype() != dtype || tensor.ndim() != 2 || tensor.dim(1) != columns) {
    throw IoError(str(file.path, ": ", name, ": wanted ", name_of(dtype), " [ranks, ", columns,
                      "], got ", name_of(tensor.dtype()), " ", tensor.shape()));
  }
  std::erase_if(file.tensors, [&](const NamedTensor& t) { return t.name == name; });
  return tensor;
}

}  // namespace

void write_checkpoint(const std::string& path, const Checkpoint& checkpoint) {
  Json json;
  json["format"] = kFormat;
  json["step"] = checkpoint.position.step;
  json["epoch"] = checkpoint.position.epoch;
  json["batch"] = checkpoint.position.batch;
  json["best_accuracy"] = checkpoint.best_accuracy;
  json["traits"] = Json::array();
  for (const RunTrait& trait : checkpoint.traits) {
    json["traits"].push_back({trait.name, trait.value});
  }
  json["optimizer"] = Json::array();
  for (const auto& [name, value] : checkpoint.optimizer.scalars) {
    json["optimizer"].push_back({name, value});
  }
  std::vector<NamedTensor> tensors = checkpoint.model;
  for (const NamedTensor& state : checkpoint.optimizer.tensors) {
    tensors.push_back({kOptimizerPrefix + state.name, state.tensor});
  }
  tensors.push_back({"rank/rng", checkpoint.rng});
  tensors.push_back({"rank/meter", checkpoint.meter});
  write_safetensors(path, tensors, {{kMetadataKey, json.dump()}});
}

Checkpoint parse_checkpoint(std::span<const std::byte> bytes, const std::string& name) {
  TensorFile file = parse_safetensors(bytes, name);
  const auto found = file.metadata.find(kMetadataKey);
  if (found == file.metadata.end()) {
    throw IoError(str(
        name, ": wanted a checkpoint of a training run, got a tensor file without one's metadata"));
  }
  Checkpoint checkpoint;
  try {
    const Json json = Json::parse(found->second);
    if (json.at("format") != kFormat) {
      throw IoError(str(name, ": wanted checkpoint format ", kFormat, ", got ",
                        json.at("format").dump(), "; it was written by another version"));
    }
    checkpoint.position = {json.at("step"), json.at("epoch"), json.at("batch")};
    checkpoint.best_accuracy = json.at("best_accuracy");
    for (const Json& trait : json.at("traits")) {
      checkpoint.traits.push_back({trait.at(0), trait.at(1)});
    }
    for (const Json& scalar : json.at("optimizer")) {
      checkpoint.optimizer.scalars.emplace_back(scalar.at(0), scalar.at(1));
    }
  } catch (const Json::exception& error) {
    throw IoError(str(name, ": malformed checkpoint metadata: ", error.what()));
  }
  checkpoint.rng = take(file, "rank/rng", DType::kI64, 2);
  checkpoint.meter = take(file, "rank/meter", DType::kF64, 3);
  for (NamedTensor& tensor : file.tensors) {
    if (tensor.name.starts_with(kOptimizerPrefix)) {
      tensor.name.erase(0, std::char_traits<char>::length(kOptimizerPrefix));
      checkpoint.optimizer.tensors.push_back(std::move(tensor));
    } else {
      checkpoint.model.push_back(std::move(tensor));
    }
  }
  return checkpoint;
}

void check_traits(const std::string& name, const std::vector<RunTrait>& checkpoint,
                  const std::vector<RunTrait>& run) {
  for (const RunTrait& wanted : checkpoint) {
    const auto got = std::find_if(run.begin(), run.end(),
                                  [&](const RunTrait& trait) { return trait.name == wanted.name; });
    if (got != run.end() && *got == wanted) continue;
    throw ArgumentError(str("resume ", name, ": wanted ", wanted.name, " ", wanted.value,
                            " as in the checkpoint, got ", got == run.end() ? "none" : got->value,
                            "; pass ", wanted.name, " ", wanted.value,
                            ", or start afresh in another --output-dir"));
  }
}

}  // namespace lockstep
