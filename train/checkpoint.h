// A training checkpoint: everything with which a run goes on as if it had not stopped, in one
// safetensors file.
//
// One file, because a rename replaces it in one step: whenever the process dies, `last.safetensors`
// is the old checkpoint or the new one, whole, and no older copy has to be kept. A file that is cut
// short all the same (a full or broken disk, a copy that was interrupted) is refused by its sizes.
//
// Checkpoints are taken between optimizer steps, so gradients and the accumulation phase need no
// place in it.
//
// Names in the file: the model's parameters and buffers as the model names them, "optimizer/...",
// "ema/...", "rank/rng" and "rank/meter", "rank<r>/comm_hook/..."; the rest is JSON in the metadata
// under "lockstep" and "bucket_plan".
//
// The format has a number, now 2. A library reads the number that it writes and refuses every other
// one, naming both. The number rises when an older reader would go wrong, not when something is
// added that it may ignore. Whatever the number, the file is safetensors and the model's tensors
// stand in it under their own names.
#pragma once

#include "lockstep/io/safetensors.h"
#include "lockstep/optim/optimizer.h"
#include "lockstep/tensor/named_tensor.h"
#include "lockstep/train/position.h"
#include "lockstep/train/sharing.h"

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

/// Something that must be the same when a run is resumed, such as {"--model", "resnet8"}.
struct RunTrait {
  std::string name;
  std::string value;

  bool operator==(const RunTrait&) const = default;
};

struct Checkpoint {
  Position position;
  double best_accuracy = -1;  // fraction; -1: no evaluation so far
  /// The least of an evaluation, where that decides which is the best; none in older files.
  std::optional<double> best_loss = std::nullopt;
  /// Stopped before the evaluation that is due at its step, which lies within an epoch: it comes
  /// first when the run goes on.
  bool evaluation_owed = false;
  int64_t skipped_steps = 0;  // left out because gradients were not finite
  /// Of the run that wrote it; none in older files.
  std::optional<Sharing> sharing = std::nullopt;
  std::vector<RunTrait> traits;
  /// By label; empty where the data set has none. Resuming takes no notice of them.
  std::vector<std::string> class_names;
  /// JSON, as reduce/plan_json.h has it. It decides the order in which gradients are added up, and
  /// comes from what the run's first backward did, so that the caps alone do not give it again.
  std::string bucket_plan;
  std::vector<NamedTensor> model;  // parameters and buffers
  OptimizerState optimizer;
  std::vector<NamedTensor> ema;        // Ema::state(), if there is one
  std::vector<NamedTensor> comm_hook;  // of all ranks (hook_state.h); mostly none
  Tensor rng;    // i64 [world size, 2]: seed and next block of each rank's generator
  Tensor meter;  // f64 [world size, 3]: each rank's sums since the last log line
};

/// Writes `path` by temporary file, fsync and rename. Throws IoError; the old file stays.
void write_checkpoint(const std::string& path, const Checkpoint& checkpoint);

/// From the bytes of a file; `name` stands for it in messages. Throws IoError for what is cut
/// short, malformed, or no checkpoint of this kind.
Checkpoint parse_checkpoint(std::span<const std::byte> bytes, const std::string& name);

/// As parse_checkpoint, from a file.
Checkpoint read_checkpoint(const std::string& path);

/// What the header alone says: all but the tensors. Reads no more of the file than that, so that
/// what is no checkpoint, or is cut short, is refused before it takes memory. Throws as above.
Checkpoint read_checkpoint_header(const std::string& path);

/// Whether a file with this metadata was written by write_checkpoint (of any version).
bool is_checkpoint(const Metadata& metadata);

/// Puts a checkpoint's averages in its weights' place; buffers are not averaged (optim/ema.h).
void take_averages(Checkpoint& checkpoint);

/// Without those that are about how ranks share samples out (sharing.h), which are compared in
/// another way where the number of ranks differs.
std::vector<RunTrait> without_sharing(std::vector<RunTrait> traits);
inline constexpr const char* kRanksTrait = "--nproc (world size)";
inline constexpr const char* kBatchTrait = "--batch-size";
inline constexpr const char* kAccumulateTrait = "--grad-accum-steps";

/// Throws ArgumentError that names the first trait in which this run and the checkpoint differ.
void check_traits(const std::string& name, const std::vector<RunTrait>& checkpoint,
                  const std::vector<RunTrait>& run);

}  // namespace lockstep
