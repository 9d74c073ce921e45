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

bool fits(const Tensor& mine, const Tensor& theirs) {
  return mine.shape() == theirs.shape() &&
         (mine.dtype() == theirs.dtype() ||
          (is_floating(mine.dtype()) && is_floating(theirs.dtype())));
}

template <class List>
auto find(List& list, const std::string& name) {
  return std::find_if(list.begin(), list.end(),
                      [&](const NamedTensor& entry) { return entry.name == name; });
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

std::string ImportReport::text() const {
  std::string text = str(loaded.size(), " of ", loaded.size() + missing.size() + other_shape.size(),
                         " tensors loaded");
  const auto add = [&](const std::vector<std::string>& names, const char* kind) {
    constexpr size_t kShown = 5;
    for (size_t i = 0; i < std::min(names.size(), kShown); ++i) {
      text += (i == 0 ? str("; ", names.size(), " ", kind, " (") : ", ") + names[i];
    }
    if (!names.empty()) text += names.size() > kShown ? ", ...)" : ")";
  };
  add(other_shape, "of another shape or dtype");
  add(missing, "missing");
  add(unexpected, "unexpected");
  return text;
}

ImportReport import_resnet(Module& model, const std::string& path, const LoadOptions& options) {
  std::vector<NamedTensor> given = from_torchvision(read_safetensors(path).tensors);
  const std::vector<NamedTensor> mine = model.state_dict();
  ImportReport report;
  std::vector<NamedTensor> fitting;
  for (const auto& [name, tensor] : mine) {
    const auto found = find(given, name);
    if (is_own(name)) {
      // The model's own value stands in, so that strictness is about the rest.
      if (found == given.end()) given.push_back({name, ops::clone(tensor)});
    } else if (found == given.end()) {
      report.missing.push_back(name);
    } else if (!fits(tensor, found->tensor)) {
      report.other_shape.push_back(str(name, ": wanted ", name_of(tensor.dtype()), " ",
                                       tensor.shape(), ", got ", name_of(found->tensor.dtype()),
                                       " ", found->tensor.shape()));
    } else {
      report.loaded.push_back(name);
      fitting.push_back(*found);
    }
  }
  for (const auto& [name, tensor] : given) {
    if (find(mine, name) == mine.end()) report.unexpected.push_back(name);
  }
  try {
    check(options.strict || !fitting.empty(), "import_resnet: ", report.text());
    model.load_state_dict(options.strict ? given : fitting, options);
  } catch (const ArgumentError& error) {
    throw ArgumentError(str(path, ": ", error.what()));
  }
  return report;
}

}  // namespace lockstep
