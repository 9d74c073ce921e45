// The bucket plan: which gradients travel together, and in which order (section 3.2.2 and 4.2 of Li
// et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel Training", PVLDB 13(12),
// 2020).
//
// A plan is a value, made by a pure function of the parameters and the caps.
#pragma once

#include "lockstep/tensor/dtype.h"
#include "lockstep/tensor/shape.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

struct ParamSpec {
  std::string name;
  Shape shape;
  DType dtype = DType::kF32;

  int64_t bytes() const { return shape.numel() * static_cast<int64_t>(size_of(dtype)); }
};

/// Sizes in MiB at which a bucket closes. A bucket closes with the gradient that brings it to its
/// cap, so it overshoots rather than cut a tensor; 0 gives every gradient a bucket of its own, that
/// is, one collective for each.
struct BucketCaps {
  double first_mb = 1;  // small, so that communication starts early in backward
  double rest_mb = 25;
  /// The gradients that arrive last are a bucket of their own: as many as this size holds, at least
  /// one. Small, because no backward is left to hide that bucket; unset: no such bucket.
  std::optional<double> last_mb = std::nullopt;
  /// When not empty: bucket k of each dtype closes at list_mb[k], those after the list at its last
  /// entry; first_mb and rest_mb do not count then.
  std::vector<double> list_mb = {};
};

struct Bucket {
  DType dtype = DType::kF32;
  std::vector<int>
      params;         // indexes into the parameters, in the order in which they lie in the bucket
  int64_t bytes = 0;  // of its gradients, without padding

  bool operator==(const Bucket&) const = default;
};

struct BucketPlan {
  std::vector<Bucket> buckets;  // in launch order

  bool operator==(const BucketPlan&) const = default;
};

/// Makes a plan for gradients that arrive from the last parameter to the first. Rank 0 calls it and
/// sends the plan to the others.
using Planner = std::function<BucketPlan(std::span<const ParamSpec>, const BucketCaps&)>;

/// The planner by default. Walks the parameters from last to first, which is about the order in
/// which backward completes them. Each dtype fills buckets of its own, the first, the rest and the
/// last by the caps; buckets are ordered by the parameter that closes them. Throws ArgumentError
/// for a negative or non-finite cap.
BucketPlan plan_buckets(std::span<const ParamSpec> params, const BucketCaps& caps);

/// The planner's plan for gradients that arrive in `order`: indexes into `params`, the first
/// arrival first, each once (ArgumentError). The planner sees the parameters in reversed order; its
/// plan is checked.
BucketPlan plan_in_order(const Planner& planner, std::span<const ParamSpec> params,
                         std::span<const int> order, const BucketCaps& caps);

/// Throws ArgumentError that names the parameter unless the plan holds each once, in buckets of
/// their dtype and size.
void check_plan(const BucketPlan& plan, std::span<const ParamSpec> params);

}  // namespace lockstep
