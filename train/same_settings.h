// What every rank has to be told alike: a launcher of one's own may give its ranks unlike flags,
// and most of them would train all the same, into replicas that differ.
#pragma once

#include "lockstep/distributed/comm/process_group.h"

#include <string>
#include <utility>
#include <vector>

namespace lockstep {

/// Collective. Throws ArgumentError with one text on every rank when some rank's settings (name and
/// value, as settings_of() gives them) are not rank 0's: the first such rank, the first difference.
void require_same_settings(const std::vector<std::pair<std::string, std::string>>& settings,
                           ProcessGroup& group);

}  // namespace lockstep
