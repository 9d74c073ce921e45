// One rank of train_resnet.
#pragma once

#include "options.h"

#include "lockstep/distributed/comm/process_group.h"
#include "lockstep/distributed/comm/rank_place.h"

namespace lockstep::train_resnet {

/// What can be checked before any process starts: sizes against the data, the output directory.
/// Throws as run() would.
void preflight(const Options& options, int world_size);

/// Trains; collective over `group`. Throws lockstep::Error.
void run(const Options& options, ProcessGroup& group, const RankPlace& place);

}  // namespace lockstep::train_resnet
