// The fully connected layer.
#pragma once

#include "lockstep/nn/module.h"
#include "lockstep/tensor/random.h"

namespace lockstep {

struct LinearSpec {
  int64_t in_features = 1;
  int64_t out_features = 1;
  bool bias = true;
};

/// x weight^T + bias: [..., out_features] from [..., in_features]. Parameters: weight
/// [out_features, in_features] and bias [out_features], initialised as PyTorch's.
class Linear final : public Layer {
 public:
  /// Throws ArgumentError unless both sizes are positive.
  Linear(const LinearSpec& spec, Generator& rng);
  Variable forward(const Variable& x) override;

  Variable weight;
  Variable bias;  // undefined without
};

}  // namespace lockstep
