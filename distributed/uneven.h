// What ranks do whose numbers of batches differ. A loop in which one rank takes more steps than
// another hangs at the first all-reduce that the other does not make.
#pragma once

#include "lockstep/distributed/comm/process_group.h"

#include <cstdint>
#include <string>

namespace lockstep {

enum class Uneven {
  kPad,   // each rank takes as many steps as the one with most, and repeats batches of its own
  kDrop,  // each takes as many as the one with fewest, and leaves the rest out
  kJoin,  // each takes its own, and then shadows the others (join.h)
  kError,
};

const char* name_of(Uneven uneven);
/// "pad", "drop", "join" or "error"; throws ArgumentError for anything else.
Uneven uneven_named(const std::string& name);

/// Collective: how many steps a rank with `batches` >= 0 batches takes in this epoch. In step k of
/// a padded epoch it uses batch k % batches. Throws ArgumentError on every rank, with all their
/// numbers, for a negative one, for kError when they differ, and for kPad when some rank has none
/// to repeat.
int64_t steps_of_rank(int64_t batches, Uneven uneven, ProcessGroup& group);

}  // namespace lockstep
