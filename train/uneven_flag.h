// --uneven, the flag for samples that do not fill a last global batch.
#pragma once

#include "lockstep/data/sampler.h"
#include "lockstep/train/checkpoint.h"

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace lockstep {

/// "drop", "pad", "join" or "error".
struct UnevenFlag {
  std::string uneven = "drop";
};

void add_uneven_flag(CLI::App& app, UnevenFlag& flag);

/// What the sampler of training does.
LastBatch last_batch_of(const UnevenFlag& flag);
/// Whether batches have to be weighed by their samples (batch_source.h): they are not all full.
bool joins(const UnevenFlag& flag);

/// For a checkpoint: where an epoch ends. None for "drop", which is what checkpoints are of that
/// were written before there was a choice.
std::vector<RunTrait> uneven_traits(const UnevenFlag& flag);

}  // namespace lockstep
