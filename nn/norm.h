// Normalisation of each sample by itself: layers.
#pragma once

#include "lockstep/autograd/ops/norm.h"
#include "lockstep/nn/dropout.h"
#include "lockstep/nn/module.h"

namespace lockstep {

struct LayerNormSpec {
  Shape normalized = {1};  // the trailing dimensions
  double eps = 1e-5;
  bool affine = true;  // with weight and bias
  bool bias = true;
};

/// layer_norm of x [..., *normalized]. Parameters: weight (ones) and bias (zeros), of the shape
/// `normalized`.
class LayerNorm final : public Layer {
 public:
  /// Throws ArgumentError unless `normalized` has dimensions, all positive.
  explicit LayerNorm(const LayerNormSpec& spec);
  Variable forward(const Variable& x) override;
  /// forward(residual + dropout(x)), in one pass over memory.
  Variable forward(const Variable& x, const Variable& residual, const Dropout& dropout);

  Variable weight;  // undefined without
  Variable bias;    // undefined without

 private:
  LayerNormSpec spec_;
};

struct GroupNormSpec {
  int64_t groups = 1;
  int64_t channels = 1;
  double eps = 1e-5;
  bool affine = true;
};

/// group_norm of x [N, ..., channels]. Parameters: weight (ones) and bias (zeros), [channels].
class GroupNorm final : public Layer {
 public:
  /// Throws ArgumentError unless `groups` divides `channels`, both positive.
  explicit GroupNorm(const GroupNormSpec& spec);
  Variable forward(const Variable& x) override;

  Variable weight;  // undefined without
  Variable bias;    // undefined without

 private:
  GroupNormSpec spec_;
};

}  // namespace lockstep
