// Older checkpoints, kept beside the newest and the best: step-1200.safetensors and the like, each
// a second name of what last.safetensors was.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

/// "step-1200.safetensors"
std::string kept_checkpoint_name(int64_t step);

/// Whether a file of this name is one.
bool is_kept_checkpoint(const std::string& name);

/// The steps of those in `directory`, the least first; none where it cannot be read.
std::vector<int64_t> kept_checkpoints(const std::string& directory);

/// Gives `directory`/last.safetensors, a checkpoint that is durable and was taken at `step`, the
/// second name as well, makes that durable, and then deletes what there is of earlier steps beyond
/// the newest `keep`. Nothing is written twice: the next checkpoint replaces the name `last` and
/// not the file. Those of later steps are another run's, or this one's before it went back to an
/// older checkpoint, and stay. On a file system without hard links the file is copied. Throws
/// IoError.
void keep_last_checkpoint(const std::string& directory, int64_t step, int64_t keep);

}  // namespace lockstep
