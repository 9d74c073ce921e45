// The bucket plan: which gradients travel together, and in which order (section 3.2.2 and 4.2 of Li
// et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel Training", PVLDB 13(12),
// 2020).
//
// A plan is a value, made by a pure function of the parameters and the caps. Every rank makes the
// same one.
#pragma once

#include "lockstep/tensor/dtype.h"
#include "lockstep/tensor/shape.h"

#include <cstdint>
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
/// cap, so it overshoots rather than cut a tensor; 0 gives every gradient a bucket of its own.
struct BucketCaps {
  double first_mb = 1;  // small, so that communication starts early in backward
  double rest_mb = 25;
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

/// Walks the parameters from last to first, which is about the order in which backward completes
/// them. Each dtype fills buckets of its own; buckets are ordered by the parameter that closes
/// them. Throws ArgumentError for a negative or non-finite cap.
BucketPlan plan_buckets(std::span<const ParamSpec> params, const BucketCaps& caps);

}  // namespace lockstep
