// train_resnet evaluate: a trained model's accuracy and loss on test images.
#pragma once

#include "options.h"

#include "lockstep/distributed/comm/process_group.h"
#include "lockstep/distributed/comm/rank_place.h"

namespace lockstep::train_resnet {

/// What can be checked before any process starts. Throws as evaluate_checkpoint() would.
void preflight_evaluation(const Options& options);

/// Collective over `group`; prints on rank 0. Each rank reads the file. Throws lockstep::Error.
void evaluate_checkpoint(const Options& options, ProcessGroup& group, const RankPlace& place);

}  // namespace lockstep::train_resnet
