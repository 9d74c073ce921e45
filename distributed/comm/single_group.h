// A group of one rank: what a program gets when it is started without a launcher.
#pragma once

#include "lockstep/distributed/comm/process_group.h"

namespace lockstep {

/// World size 1. Collectives complete within the call; send and recv have no peer and throw
/// ArgumentError.
std::unique_ptr<ProcessGroup> make_single_group();

}  // namespace lockstep
