// A backward for a rank that has no batch while others have one.
#pragma once

#include "lockstep/distributed/data_parallel.h"

namespace lockstep {

/// Takes part in the other ranks' synchronised backward: the same collectives in the same order,
/// with what this rank has accumulated under no_sync() since zero_grad(), or zeros. Afterwards
/// grad() is on this rank what it is on the others, so the same optimizer step keeps the replicas
/// equal. Parameters that the others leave out stay without a gradient
/// (DdpOptions::find_unused_parameters). Not within no_sync(). Throws ArgumentError with
/// static_graph, where a rank may not leave out what it has used before; then use
/// find_unused_parameters.
void shadow_backward(DataParallel& ddp);

}  // namespace lockstep
