// Parting a model's parameters into groups that get options of their own.
#pragma once

#include "lockstep/autograd/named_parameter.h"

#include <functional>
#include <vector>

namespace lockstep {

struct SplitParameters {
  std::vector<NamedParameter> matching;
  std::vector<NamedParameter> others;
};

/// Both parts in the order given:
///   auto [decayed, rest] = split_parameters(model.named_parameters(), has_weight_decay);
///   AdamW optimizer({{decayed, {.weight_decay = 0.1}}, {rest, {.weight_decay = 0}}});
/// A run of neighbours in memory ends where the next parameter is in another group, so a step takes
/// more kernel calls with than without groups.
SplitParameters split_parameters(std::vector<NamedParameter> parameters,
                                 const std::function<bool(const NamedParameter&)>& predicate);

/// The usual choice: weights of two dimensions and more. Not biases, nor the scales and shifts of
/// norms, which have one.
bool has_weight_decay(const NamedParameter& parameter);

}  // namespace lockstep
