// What is said when a parameter has no gradient on some rank, and unused parameters were not asked
// to be found; or when it has one, but not where the buckets are.
#pragma once

#include "lockstep/autograd/named_parameter.h"
#include "lockstep/distributed/comm/process_group.h"
#include "lockstep/distributed/reduce/bucket_plan.h"
#include "lockstep/tensor/tensor.h"

#include <span>

namespace lockstep {

/// Collective: throws ArgumentError with one text on every rank: the first rank on which something
/// is wrong, the parameters, their buckets, and what to do. `here`: i32, for each of `parameters`
/// whether this rank has a gradient, then for each of `frozen` whether it still is; some rank has a
/// 0, for a parameter unless `unused_allowed`, or for a frozen one.
[[noreturn]] void throw_missing_gradient(const Tensor& here,
                                         std::span<const NamedParameter> parameters,
                                         std::span<const NamedParameter> frozen,
                                         bool unused_allowed, const BucketPlan& plan,
                                         ProcessGroup& group);

/// Throws ArgumentError unless the parameter's gradients are written into `slice` of a bucket, as
/// they are no more when something else has bound them since.
void require_in_bucket(const NamedParameter& parameter, const Tensor& slice);

}  // namespace lockstep
