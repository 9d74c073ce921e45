// What the exchanges of weights with other programs have in common: comparing a file's tensors with
// a model's, name by name, and telling what was found.
#pragma once

#include "lockstep/tensor/named_tensor.h"

#include <span>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

/// What an import found. All empty but `loaded` when file and model are the same.
struct ImportReport {
  std::vector<std::string> loaded;
  std::vector<std::string> missing;      // the model has it, the file has not
  std::vector<std::string> unexpected;   // the file has it, the model has not
  std::vector<std::string> other_shape;  // "fc.bias: wanted [10], got [1000]"; or another dtype
  /// "60 of 62 tensors loaded; 2 of another shape (fc.weight: ..., ...)", in one line.
  std::string text() const;
};

struct StateComparison {
  ImportReport report;
  /// Of what fits: the model's tensor and the file's.
  std::vector<std::pair<NamedTensor, Tensor>> fitting;
};

/// Compares a model's tensors (`mine`) with a file's. Shapes must agree, and dtypes where one of
/// the two is no floating one. Loads nothing.
StateComparison compare_states(std::span<const NamedTensor> mine,
                               std::span<const NamedTensor> given);

}  // namespace lockstep
