// Runs a communication hook beside backward: buckets go through it one after the other, on a thread
// of its own.
#pragma once

#include "lockstep/distributed/reduce/comm_hook.h"

#include <memory>

namespace lockstep {

/// The reduction that `hook` makes of a bucket, for DdpOptions::reduction. Both are used on a
/// thread that lives as long as the reduction and its copies; `group` must outlive them.
///
/// While a Work of it is in flight the group belongs to the hook: issuing anything else on it would
/// mix with the hook's collectives in another order on every rank. Kernels of that thread use one
/// CPU core, for backward has the others.
///
/// The Work's times are those of hook.reduce(), waiting for the other ranks included.
///
/// An exception in the hook comes out of this rank's first Work::wait() as it is; the group is
/// aborted with its message, so that the other ranks throw CommError, and so do the buckets behind
/// it and every later call. Destroying the reduction with buckets in flight does the same.
BucketReduction run_comm_hook(std::shared_ptr<CommHook> hook, ProcessGroup& group);

}  // namespace lockstep
