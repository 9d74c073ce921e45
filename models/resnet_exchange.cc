#include "lockstep/models/resnet_exchange.h"

#include "lockstep/io/safetensors.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tensor/ops/layout.h"

#include <algorithm>
#include <utility>

namespace lockstep {
namespace {

/// State that only this project's ResNet has; a file from elsewhere cannot lack it.
bool is_own(const std::string& name) { return name.starts_with("layer_drop."); }

/// In a ResNet the weights of convolutions, and they alone, have four dimensions.
Tensor permuted(const Tensor& tensor, const std::vector<int>& dims) {
  return tensor.ndim() == 4 ? ops::permute(tensor, dims) : tensor;
}

}  // namespace

std::vector<NamedTensor> to_torchvision(std::span<const NamedTensor> state) {
  std::vector<NamedTensor> out;
  for (const auto& [name, tensor] : state) {
    if (is_own(name)) continue;
    out.push_back({name, permuted(ops::to_device(tensor, Device::cpu()), {0, 3, 1, 2})});
  }
  return out;
}

std::vector<NamedTensor> from_torchvision(std::span<const NamedTensor> state) {
  std::vector<NamedTensor> out;
  for (const auto& [name, tensor] : state) out.push_back({name, permuted(tensor, {0, 2, 3, 1})});
  return out;
}

void export_resnet(const std::string& path, std::span<const NamedTensor> state,
                   const std::string& model) {
  // "format" is what other programs' loaders look for.
  write_safetensors(path, to_torchvision(state), {{"format", "pt"}, {"model", model}});
}

ImportReport import_resnet(Module& model, const std::string& path, const LoadOptions& options) {
  std::vector<NamedTensor> given = from_torchvision(read_safetensors(path).tensors);
  std::vector<NamedTensor> wanted, own;
  for (NamedTensor& entry : model.state_dict())
    (is_own(entry.name) ? own : wanted).push_back(std::move(entry));
  // The model's own values stand in, so that strictness is about the rest.
  for (const auto& [name, tensor] : own) {
    const bool there = std::any_of(given.begin(), given.end(),
                                   [&](const NamedTensor& g) { return g.name == name; });
    if (!there) given.push_back({name, ops::clone(tensor)});
  }
  StateComparison found = compare_states(wanted, given);
  std::erase_if(found.report.unexpected, is_own);
  std::vector<NamedTensor> fitting;
  for (const auto& [mine, theirs] : found.fitting) fitting.push_back({mine.name, theirs});
  try {
    check(options.strict || !fitting.empty(), "import_resnet: ", found.report.text());
    model.load_state_dict(options.strict ? given : fitting, options);
  } catch (const ArgumentError& error) {
    throw ArgumentError(str(path, ": ", error.what()));
  }
  return found.report;
}

}  // namespace lockstep
