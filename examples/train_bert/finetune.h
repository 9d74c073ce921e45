// train_bert finetune: one rank.
#pragma once

#include "options.h"

#include "lockstep/distributed/comm/process_group.h"
#include "lockstep/distributed/comm/rank_place.h"

namespace lockstep::train_bert {

/// What can be checked before any process starts. Throws as finetune() would.
void preflight_finetuning(const FinetuneOptions& options, int world);

/// Trains; collective over `group`. Throws lockstep::Error.
void finetune(const FinetuneOptions& options, ProcessGroup& group, const RankPlace& place);

}  // namespace lockstep::train_bert
