// Batches of token sequences, in the sampler's order.
#pragma once

#include "lockstep/data/sampler.h"
#include "lockstep/data/text/text_dataset.h"
#include "lockstep/tensor/tensor.h"

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace lockstep {

/// B sequences, padded to S tokens.
struct TextBatch {
  Tensor ids;               // i64 [B, S]
  Tensor types;             // i64 [B, S]; undefined: all 0
  Tensor padding;           // u8 [B, S], 1 where padding; undefined: none
  Tensor masked_positions;  // i64 [M], into B * S, ascending but for what fills up; M may be 0
  Tensor masked_labels;     // i64 [M]; kNoLabel for what fills up
  Tensor labels;            // i64 [B]; undefined when the data set has none

  /// B; 0 is possible in the last batch of an evaluation (LastBatch::kKeep).
  int64_t size() const { return ids.dim(0); }
  int64_t length() const { return ids.dim(1); }
  /// All of them, defined or not, in their order.
  std::array<Tensor*, 6> tensors() {
    return {&ids, &types, &padding, &masked_positions, &masked_labels, &labels};
  }
  /// Tokens that are no padding.
  int64_t tokens = 0;
  int64_t filled = 0;  // of M, at the end: what only fills up

  /// M without what fills up.
  int64_t masked() const { return masked_labels.dim(0) - filled; }

  static constexpr int64_t kNoLabel = -100;  // CrossEntropyOptions::ignore_index
};

struct TextBatchOptions {
  /// S is the longest sequence of the batch, rounded up to a multiple of this, and never more than
  /// the data set's max_seq_length.
  int64_t pad_to_multiple_of = 8;
  /// S is max_seq_length in every batch: one shape, so that a warm step allocates nothing.
  bool pad_to_max_length = false;
  /// All batches of B examples in one shape, for steps that are captured: as pad_to_max_length,
  /// `padding` is there where it hides nothing, too, and M is at least B times this, filled up by
  /// position 0 with kNoLabel.
  std::optional<int64_t> fixed_masked = std::nullopt;
};

/// The examples as one batch of a data set whose examples are at most `max_seq_length` long. Throws
/// ArgumentError when one is longer.
TextBatch make_text_batch(std::span<const TextExample> examples, const TextDataset& dataset,
                          const TextBatchOptions& options = {});

/// Yields each epoch's batches in order, made in the caller's thread, which costs little:
///
///   loader.begin_epoch(epoch);
///   while (std::optional<TextBatch> batch = loader.next()) { ... }
class TextLoader {
 public:
  /// Throws ArgumentError when the sampler is for another size, or for a multiple below 1.
  TextLoader(std::shared_ptr<const TextDataset> dataset, const DistributedSampler& sampler,
             const TextBatchOptions& options = {});

  /// Batches in every epoch.
  int64_t batches() const { return sampler_.batches(); }
  const TextDataset& dataset() const { return *dataset_; }

  /// Starts at batch `start_batch` of epoch `epoch` (0 <= start_batch <= batches()), giving up what
  /// was left of the epoch before.
  void begin_epoch(int64_t epoch, int64_t start_batch = 0);
  /// The next batch; none at the end of the epoch and before the first begin_epoch.
  std::optional<TextBatch> next();

 private:
  std::shared_ptr<const TextDataset> dataset_;
  DistributedSampler sampler_;
  TextBatchOptions options_;
  std::optional<SampledEpoch> order_;
  int64_t epoch_ = 0, next_ = 0;
  std::vector<TextExample> examples_;  // their memory is used again
};

}  // namespace lockstep
