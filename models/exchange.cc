#include "lockstep/models/exchange.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace lockstep {
namespace {

bool fits(const Tensor& mine, const Tensor& theirs) {
  return mine.shape() == theirs.shape() &&
         (mine.dtype() == theirs.dtype() ||
          (is_floating(mine.dtype()) && is_floating(theirs.dtype())));
}

}  // namespace

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

StateComparison compare_states(std::span<const NamedTensor> mine,
                               std::span<const NamedTensor> given) {
  std::unordered_map<std::string, const Tensor*> theirs;
  for (const auto& [name, tensor] : given) theirs.emplace(name, &tensor);
  std::unordered_set<std::string> known;
  StateComparison result;
  ImportReport& report = result.report;
  for (const NamedTensor& entry : mine) {
    const auto& [name, tensor] = entry;
    known.insert(name);
    const auto found = theirs.find(name);
    if (found == theirs.end()) {
      report.missing.push_back(name);
    } else if (const Tensor& other = *found->second; !fits(tensor, other)) {
      report.other_shape.push_back(str(name, ": wanted ", name_of(tensor.dtype()), " ",
                                       tensor.shape(), ", got ", name_of(other.dtype()), " ",
                                       other.shape()));
    } else {
      report.loaded.push_back(name);
      result.fitting.emplace_back(entry, other);
    }
  }
  for (const auto& [name, tensor] : given) {
    if (!known.contains(name)) report.unexpected.push_back(name);
  }
  return result;
}

}  // namespace lockstep
