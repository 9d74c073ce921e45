// Do all ranks hold the same parameters? Asked once, before the first collective that would mix
// unlike tensors.
#pragma once

#include "lockstep/distributed/comm/process_group.h"
#include "lockstep/nn/module.h"

#include <vector>

namespace lockstep {

/// Throws ArgumentError on EVERY rank when some rank's parameters differ from rank 0's in number,
/// name, order, shape, dtype or in whether they require gradients; the message names the first such
/// rank and the first difference. Collective.
void require_same_parameters(const std::vector<NamedParameter>& parameters, ProcessGroup& group);

}  // namespace lockstep
