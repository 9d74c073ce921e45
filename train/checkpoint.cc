#include "lockstep/train/checkpoint.h"

#include "lockstep/base/error.h"
#include "lockstep/io/json_text.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/train/hook_state.h"

#include <nlohmann/json.hpp>

#include <algorithm>

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kMetadataKey = "lockstep";
constexpr const char* kOptimizerPrefix = "optimizer/";
constexpr const char* kEmaPrefix = "ema/";
constexpr const char* kPlanKey = "bucket_plan";
constexpr int kFormat = 2;

Tensor take(TensorFile& file, const std::string& name, DType dtype, int64_t columns) {
  const Tensor tensor = file.at(name);
  if (tensor.dtype() != dtype || tensor.ndim() != 2 || tensor.dim(1) != columns) {
    throw IoError(str(file.path, ": ", name, ": wanted ", name_of(dtype), " [ranks, ", columns,
                      "], got ", name_of(tensor.dtype()), " ", tensor.shape()));
  }
  std::erase_if(file.tensors, [&](const NamedTensor& t) { return t.name == name; });
  return tensor;
}

/// A double would be cut to an integer silently, or overflow it.
int64_t integer(const Json& json, const char* key, const std::string& name) {
  const Json& value = json.at(key);
  if (!value.is_number_integer()) {
    throw IoError(str(name, ": malformed checkpoint metadata: wanted an integer ", key, ", got ",
                      json_text(value)));
  }
  return value.get<int64_t>();
}

/// All but the tensors.
Checkpoint parse_metadata(const Metadata& metadata, const std::string& name) {
  const auto found = metadata.find(kMetadataKey);
  if (found == metadata.end()) {
    throw IoError(str(
        name, ": wanted a checkpoint of a training run, got a tensor file without one's metadata"));
  }
  Checkpoint checkpoint;
  try {
    const Json json = Json::parse(found->second);
    if (const Json& format = json.at("format"); format != kFormat) {
      throw IoError(str(name, ": wanted checkpoint format ", kFormat, ", got ", json_text(format),
                        "; ", format > kFormat ? "a newer" : "an older",
                        " version of Lockstep wrote it; resume it with that version"));
    }
    checkpoint.position = {integer(json, "step", name), integer(json, "epoch", name),
                           integer(json, "batch", name)};
    checkpoint.best_accuracy = json.at("best_accuracy");
    if (const auto loss = json.find("best_loss"); loss != json.end()) {
      checkpoint.best_loss = loss->get<double>();
    }
    if (const auto owed = json.find("evaluation_owed"); owed != json.end()) {
      checkpoint.evaluation_owed = owed->get<bool>();
    }
    if (json.contains("skipped_steps")) {
      checkpoint.skipped_steps = integer(json, "skipped_steps", name);
    }
    if (const auto sharing = json.find("sharing"); sharing != json.end()) {
      checkpoint.sharing = {.ranks = integer(*sharing, "ranks", name),
                            .batch_size = integer(*sharing, "batch_size", name),
                            .accumulated = integer(*sharing, "accumulated", name),
                            .batches = integer(*sharing, "batches", name)};
    }
    for (const Json& trait : json.at("traits")) {
      checkpoint.traits.push_back({trait.at(0), trait.at(1)});
    }
    if (const auto names = json.find("class_names"); names != json.end()) {
      for (const Json& class_name : *names) checkpoint.class_names.push_back(class_name);
    }
    for (const Json& scalar : json.at("optimizer")) {
      checkpoint.optimizer.scalars.emplace_back(scalar.at(0), scalar.at(1));
    }
    checkpoint.bucket_plan = metadata.at(kPlanKey);
  } catch (const std::out_of_range&) {
    throw IoError(str(name, ": malformed checkpoint metadata: wanted a bucket_plan, got none"));
  } catch (const Json::exception& error) {
    throw IoError(str(name, ": malformed checkpoint metadata: ", error.what()));
  }
  return checkpoint;
}

Checkpoint from_file(TensorFile file) {
  Checkpoint checkpoint = parse_metadata(file.metadata, file.path);
  checkpoint.rng = take(file, "rank/rng", DType::kI64, 2);
  checkpoint.meter = take(file, "rank/meter", DType::kF64, 3);
  const auto without = [](NamedTensor& tensor, const char* prefix) {
    tensor.name.erase(0, std::char_traits<char>::length(prefix));
    return std::move(tensor);
  };
  for (NamedTensor& tensor : file.tensors) {
    if (tensor.name.starts_with(kOptimizerPrefix)) {
      checkpoint.optimizer.tensors.push_back(without(tensor, kOptimizerPrefix));
    } else if (tensor.name.starts_with(kEmaPrefix)) {
      checkpoint.ema.push_back(without(tensor, kEmaPrefix));
    } else if (is_hook_state(tensor.name)) {
      checkpoint.comm_hook.push_back(std::move(tensor));
    } else {
      checkpoint.model.push_back(std::move(tensor));
    }
  }
  return checkpoint;
}

}  // namespace

void write_checkpoint(const std::string& path, const Checkpoint& checkpoint) {
  Json json;
  json["format"] = kFormat;
  json["step"] = checkpoint.position.step;
  json["epoch"] = checkpoint.position.epoch;
  json["batch"] = checkpoint.position.batch;
  json["best_accuracy"] = checkpoint.best_accuracy;
  if (checkpoint.best_loss) json["best_loss"] = *checkpoint.best_loss;
  if (checkpoint.evaluation_owed) json["evaluation_owed"] = true;
  if (checkpoint.skipped_steps > 0) json["skipped_steps"] = checkpoint.skipped_steps;
  if (const auto& sharing = checkpoint.sharing) {
    json["sharing"] = {{"ranks", sharing->ranks},
                       {"batch_size", sharing->batch_size},
                       {"accumulated", sharing->accumulated},
                       {"batches", sharing->batches}};
  }
  json["traits"] = Json::array();
  for (const RunTrait& trait : checkpoint.traits) {
    json["traits"].push_back({trait.name, trait.value});
  }
  json["optimizer"] = Json::array();
  for (const auto& [name, value] : checkpoint.optimizer.scalars) {
    json["optimizer"].push_back({name, value});
  }
  if (!checkpoint.class_names.empty()) json["class_names"] = checkpoint.class_names;
  std::vector<NamedTensor> tensors = checkpoint.model;
  for (const NamedTensor& state : checkpoint.optimizer.tensors) {
    tensors.push_back({kOptimizerPrefix + state.name, state.tensor});
  }
  for (const NamedTensor& state : checkpoint.ema) {
    tensors.push_back({kEmaPrefix + state.name, state.tensor});
  }
  tensors.insert(tensors.end(), checkpoint.comm_hook.begin(), checkpoint.comm_hook.end());
  tensors.push_back({"rank/rng", checkpoint.rng});
  tensors.push_back({"rank/meter", checkpoint.meter});
  for (NamedTensor& each : tensors) each.tensor = ops::to_device(each.tensor, Device::cpu());
  // Class names may come from folders, which may have any bytes for names.
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  write_safetensors(path, tensors, {{kMetadataKey, text}, {kPlanKey, checkpoint.bucket_plan}});
}

Checkpoint parse_checkpoint(std::span<const std::byte> bytes, const std::string& name) {
  return from_file(parse_safetensors(bytes, name));
}

Checkpoint read_checkpoint(const std::string& path) { return from_file(read_safetensors(path)); }

Checkpoint read_checkpoint_header(const std::string& path) {
  return parse_metadata(read_safetensors_header(path).metadata, path);
}

bool is_checkpoint(const Metadata& metadata) { return metadata.contains(kMetadataKey); }

void take_averages(Checkpoint& checkpoint) {
  for (const NamedTensor& average : checkpoint.ema) {
    const auto found = std::find_if(
        checkpoint.model.begin(), checkpoint.model.end(),
        [&](const NamedTensor& weight) { return average.name == "average." + weight.name; });
    if (found != checkpoint.model.end()) found->tensor = average.tensor;
  }
}

std::vector<RunTrait> without_sharing(std::vector<RunTrait> traits) {
  std::erase_if(traits, [](const RunTrait& trait) {
    return trait.name == kRanksTrait || trait.name == kBatchTrait || trait.name == kAccumulateTrait;
  });
  return traits;
}

void check_traits(const std::string& name, const std::vector<RunTrait>& checkpoint,
                  const std::vector<RunTrait>& run) {
  const auto value_in = [](const std::vector<RunTrait>& traits, const std::string& trait) {
    const auto found = std::find_if(traits.begin(), traits.end(),
                                    [&](const RunTrait& t) { return t.name == trait; });
    return found == traits.end() ? "none" : found->value;
  };
  // A trait that only one of them has is a difference as well.
  std::vector<RunTrait> all = checkpoint;
  all.insert(all.end(), run.begin(), run.end());
  for (const RunTrait& trait : all) {
    const std::string wanted = value_in(checkpoint, trait.name), got = value_in(run, trait.name);
    if (wanted == got) continue;
    throw ArgumentError(str("resume ", name, ": wanted ", trait.name, " ", wanted,
                            " as in the checkpoint, got ", got,
                            "; use the same, or start afresh in another --output-dir"));
  }
}

}  // namespace lockstep
