// What every rank says when a parameter has no gradient on some rank, and unused parameters were
// not asked to be found.
#pragma once

#include "lockstep/autograd/named_parameter.h"
#include "lockstep/distributed/comm/process_group.h"
#include "lockstep/distributed/reduce/bucket_plan.h"
#include "lockstep/tensor/tensor.h"

#include <span>

namespace lockstep {

/// Collective: throws ArgumentError with one text on every rank: the first rank that lacks a
/// gradient, the parameters, their buckets, and what to do. `here`: i32, one for each parameter, 0
/// where this rank has no gradient; some rank has a 0.
[[noreturn]] void throw_missing_gradient(const Tensor& here,
                                         std::span<const NamedParameter> parameters,
                                         const BucketPlan& plan, ProcessGroup& group);

}  // namespace lockstep
