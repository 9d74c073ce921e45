// Several groups of the same ranks as one, so that their transfers overlap (Li et al., "PyTorch
// Distributed: Experiences on Accelerating Data Parallel Training", VLDB 2020, section 3.3).
#pragma once

#include "lockstep/distributed/comm/process_group.h"

#include <vector>

namespace lockstep {

/// A group over `groups`, which it owns: the collectives go to the first, the second, ... in turn.
/// `splits` of one group make them: split(0, rank()) gives one of the same ranks.
///
/// What differs from other groups: two collectives that follow each other may run at once and end
/// in any order, so one that uses the memory of another is issued only after the other has been
/// waited for. What does not:
/// - Each Work is complete when its own operation is.
/// - A barrier goes through every group: once it is complete, so is everything issued before it on
///   any rank.
/// - send and recv go through the first group, after everything issued before them: the call waits
///   for it.
/// - The first error is final: whoever meets it, in a call or in waiting for a Work, ends all
///   groups. An operation already on its way in another group may still succeed.
/// - abort() aborts all.
///
/// Throws ArgumentError unless all have the same rank and size.
std::unique_ptr<ProcessGroup> make_round_robin_group(
    std::vector<std::unique_ptr<ProcessGroup>> groups);

}  // namespace lockstep
