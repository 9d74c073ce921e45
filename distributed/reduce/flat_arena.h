// FlatArena: memory for one tensor per parameter, laid out by a bucket plan. One block per dtype;
// within it the parameters lie in plan order, each slice aligned to 256 bytes, so that a bucket is
// one contiguous range and a pass over all parameters is one pass over memory. Gradients and
// parameter values use the same layout.
#pragma once

#include "lockstep/distributed/reduce/bucket_plan.h"
#include "lockstep/tensor/tensor.h"

#include <span>
#include <vector>

namespace lockstep {

class FlatArena {
 public:
  FlatArena() = default;
  /// Zeroed, so that the padding that travels with a bucket is zero and stays zero.
  FlatArena(std::span<const ParamSpec> params, const BucketPlan& plan, Device device);

  /// The slice of parameter i, in its shape; undefined when the plan does not hold it.
  const Tensor& param(int i) const { return params_[static_cast<size_t>(i)]; }
  /// The range of bucket b, flat, with the padding of its slices.
  const Tensor& bucket(int b) const { return buckets_[static_cast<size_t>(b)]; }

 private:
  std::vector<Tensor> params_;
  std::vector<Tensor> buckets_;
};

}  // namespace lockstep
