// Reductions of buckets that do something wrong, so that the reducer itself stays as it is.
#pragma once

#include "lockstep/distributed/faults/fault.h"
#include "lockstep/distributed/reduce/grad_bucket.h"

namespace lockstep {

/// `inner` (null: all_reduce on `group`) with those of `faults` that concern the reduction. `group`
/// must outlive it. Without such a fault it is `inner` itself. kDie ends this process with SIGKILL.
BucketReduction with_faults(const std::vector<Fault>& faults, ProcessGroup& group,
                            BucketReduction inner);

}  // namespace lockstep
