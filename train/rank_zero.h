// What rank 0 does for all: when it fails there, every rank stops with an error instead of waiting
// for a lost peer.
#pragma once

#include "lockstep/distributed/comm/process_group.h"

#include <cstddef>
#include <functional>
#include <vector>

namespace lockstep {

/// Collective. Runs `fn` on rank 0. Throws on every rank when it throws: rank 0 the exception
/// itself, the others CommError
/// "<what>: a peer was lost or is late: rank 0 failed; its message says why".
void run_on_rank_zero(ProcessGroup& group, const char* what, const std::function<void()>& fn);

/// Collective. As above, where `fn` gives bytes; returns them on every rank.
std::vector<std::byte> broadcast_from_rank_zero(ProcessGroup& group, const char* what,
                                                const std::function<std::vector<std::byte>()>& fn);

}  // namespace lockstep
