// The state of a communication hook in a checkpoint. Each rank has its own, so that of all ranks is
// gathered.
#pragma once

#include "lockstep/distributed/comm/process_group.h"
#include "lockstep/tensor/named_tensor.h"

#include <span>
#include <string>
#include <vector>

namespace lockstep {

/// Collective. `mine` (host tensors; CommHook::state()) of every rank, on rank 0, as
/// "rank<r>/comm_hook/<name>"; nothing on the others. Rank 0's own tensors are not copied.
std::vector<NamedTensor> gather_hook_state(std::span<const NamedTensor> mine, ProcessGroup& group);

/// What `rank` gave, under its own names.
std::vector<NamedTensor> hook_state_of(int rank, std::span<const NamedTensor> gathered);

/// Whether a name in a checkpoint is one of gather_hook_state().
bool is_hook_state(const std::string& name);

}  // namespace lockstep
