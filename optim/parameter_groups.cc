#include "lockstep/optim/parameter_groups.h"

#include <utility>

namespace lockstep {

SplitParameters split_parameters(std::vector<NamedParameter> parameters,
                                 const std::function<bool(const NamedParameter&)>& predicate) {
  SplitParameters parts;
  for (NamedParameter& entry : parameters) {
    auto& part = predicate(entry) ? parts.matching : parts.others;
    part.push_back(std::move(entry));
  }
  return parts;
}

bool has_weight_decay(const NamedParameter& entry) { return entry.parameter.shape().ndim() >= 2; }

}  // namespace lockstep
