// LayerDrop: whole layers are skipped at random in training (Fan et al., "Reducing Transformer
// depth on demand with structured dropout", ICLR 2020; for residual networks Huang et al., "Deep
// networks with stochastic depth", ECCV 2016). In data parallelism every rank must skip the same
// ones, so that whole buckets of gradients are left out (Li et al., PVLDB 2020, section 6.2).
#pragma once

#include "lockstep/autograd/checkpoint.h"
#include "lockstep/nn/module.h"
#include "lockstep/tensor/random.h"

namespace lockstep {

/// Decides; the model asks it and leaves out what is dropped. Whether layer i of forward number n
/// is dropped depends on (seed, n, i) alone: ranks that were given one seed agree without talking.
///
/// n is a buffer, "forwards", an i64 scalar on the host that counts the forwards in training: it is
/// in checkpoints, so that a resumed run goes on with the same decisions, and data parallelism
/// copies rank 0's.
///
/// A layer that is kept is not scaled by 1 / (1 - p), and evaluation, which runs all of them,
/// scales nothing by 1 - p (as LayerDrop, unlike stochastic depth): the weights mean what they mean
/// in a model that was trained without, and the normalisation behind a layer adapts to its scale.
class LayerDrop final : public Module {
 public:
  /// Each layer is dropped with probability p. Throws ArgumentError unless 0 <= p < 1.
  LayerDrop(double p, uint64_t seed) : p_(p), seed_(seed) {
    check(p >= 0 && p < 1, "LayerDrop: wanted 0 <= p < 1, got ", p);
    register_buffer("forwards", forwards_);
  }

  /// Call first in each forward of the model: the decisions change. In evaluation nothing happens.
  void begin_forward() {
    if (training() && !recomputing()) ++*forwards_.mutable_data<int64_t>();
  }
  /// Whether this forward leaves out layer `layer` (0, 1, ...). Never in evaluation.
  bool drops(int64_t layer) const {
    if (!training() || p_ == 0) return false;
    const auto forward = static_cast<uint64_t>(*forwards_.data<int64_t>());
    const auto stream = philox4x32(seed_, forward);
    const PhiloxRange range{uint64_t{stream[0]} << 32 | stream[1], 0};
    return static_cast<double>(range.uniform(layer)) < p_;
  }

 private:
  double p_;
  uint64_t seed_;
  Tensor forwards_ = Tensor::zeros({}, DType::kI64);
};

}  // namespace lockstep
