// GradBucket: a bucket of gradients as the one who sums it over the ranks sees it: the default
// all-reduce, or a communication hook (section 6.2.3 of Li et al., PVLDB 13(12), 2020).
#pragma once

#include "lockstep/distributed/comm/process_group.h"
#include "lockstep/tensor/tensor.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace lockstep {

struct GradBucket {
  struct Param {
    std::string name;
    Tensor grad;  // a view into `flat`, in the parameter's shape
    /// Some rank has a gradient. Otherwise `grad` is zero everywhere and must stay so: nobody will
    /// look at it.
    bool used = true;
  };

  int index = 0;      // in launch order; the same until buckets are planned anew
  int64_t step = 0;   // synchronised backwards before this one, in the whole run
  bool last = false;  // no bucket of this backward comes after it
  /// Of one dtype, already divided by the number of ranks. Between and after the gradients lies
  /// padding, which is zero and must stay zero.
  Tensor flat;
  std::vector<Param> params;  // in the order in which they lie in `flat`
};

/// Starts the sum over the ranks of bucket.flat, in place. Called on every rank in the plan's
/// order; the bucket outlives the Work.
using BucketReduction = std::function<WorkPtr(const GradBucket& bucket)>;

}  // namespace lockstep
