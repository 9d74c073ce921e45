// What the ranks must have in common before a collective mixes their tensors: the parameters, and
// the plan of their buckets.
#pragma once

#include "lockstep/autograd/named_parameter.h"
#include "lockstep/distributed/comm/process_group.h"
#include "lockstep/distributed/reduce/bucket_plan.h"
#include "lockstep/nn/module.h"

#include <functional>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

/// Takes what `ignore` names out of the lists. Throws ArgumentError on EVERY rank when some rank
/// has no parameter or buffer of such a name, or ignores others than rank 0. Collective.
void leave_out(const std::vector<std::string>& ignore, std::vector<NamedParameter>& parameters,
               std::vector<NamedBuffer>& buffers, ProcessGroup& group);

/// Throws ArgumentError on EVERY rank when some rank's parameters or buffers differ from rank 0's
/// in number, name, order, shape, dtype or in whether they require gradients; the message names the
/// first such rank and the first difference. Collective.
void require_same_parameters(const std::vector<NamedParameter>& parameters,
                             const std::vector<NamedBuffer>& buffers, ProcessGroup& group);

/// Rank 0's plan for `params`, on every rank; only rank 0 calls `make`. What that throws is thrown
/// there, and the others throw CommError that blames rank 0. Collective.
BucketPlan plan_of_rank_zero(ProcessGroup& group, std::span<const ParamSpec> params,
                             const std::function<BucketPlan()>& make);

}  // namespace lockstep
