// Batch normalisation over the batches of all ranks, as one process with all their samples would do
// it: for batches that are too small on each rank.
#pragma once

#include "lockstep/distributed/comm/process_group.h"
#include "lockstep/nn/module.h"

namespace lockstep {

/// From the next forward in training on, every BatchNorm2d in `module` takes its statistics, and
/// the sums of its backward, over the samples of all ranks of `group`, weighted by how many each
/// holds. One small collective in each forward and one in each backward of a layer. Returns the
/// number of layers; with one rank, or no such layer, nothing changes.
///
/// Collective, like the construction of DataParallel, before or after it; not while a backward
/// runs. The layers talk through a group of their own, split from `group`, so that their
/// collectives never wait behind those of gradient buckets; the timeline counts their time as
/// forward and backward. The layers own it together, with the
/// graphs that they recorded: it may outlive `group`, ends with the last of them, and fails on the
/// other ranks when one rank lets go of its model while others still train.
///
/// Every rank must run the layers equally often, in the same order, and backward likewise; a rank
/// without samples takes part with a batch of no rows. Evaluation exchanges nothing: one rank may
/// do it alone. Running statistics have the same bits on every rank where they had before. The
/// gradients of weight and bias stay this rank's own part, for DataParallel to average.
int use_sync_batch_norm(Module& module, ProcessGroup& group);

}  // namespace lockstep
