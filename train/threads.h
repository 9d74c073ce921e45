// How many threads the kernels of a rank run on.
#pragma once

#include "lockstep/distributed/comm/rank_place.h"

namespace lockstep {

/// `threads`; 0: what OMP_NUM_THREADS says, or this rank's share of the machine's processors when
/// it is unset or empty. Returns how many they are. Throws ArgumentError if OMP_NUM_THREADS asks
/// for more than 1024.
int set_threads(int threads, const RankPlace& place);

}  // namespace lockstep
