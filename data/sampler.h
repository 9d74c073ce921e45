// Which samples each rank sees, in which order: a pure function of what SamplerOptions says and of
// the epoch.
//
// An epoch is one order of all samples, the same on every rank, cut into global batches of
// world_size * batch_size; rank r takes the r-th contiguous part of each. So N ranks with batch b
// see in step k exactly the samples, in the same order, that one process with batch N * b sees, for
// the last batch as well; and an epoch can be entered at any batch.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace lockstep {

/// What becomes of the samples that do not fill a last global batch.
enum class LastBatch {
  kDrop,  // for training: they are left out of this epoch
  kPad,  // for training: samples from the epoch's beginning fill the batch up; all ranks' parts are
         // equal
  kKeep,   // for evaluation: each sample once; the ranks' parts of the last batch differ by at most
           // one and may be empty. In training such a batch weighs less (Trainer)
  kError,  // there must be none
};

struct SamplerOptions {
  int64_t size = 0;        // samples in the data set
  int64_t batch_size = 1;  // per rank
  int rank = 0;
  int world_size = 1;
  uint64_t seed = 0;
  bool shuffle = true;
  LastBatch last_batch = LastBatch::kDrop;
};

/// One epoch of one rank. A handle: copies share the order.
class SampledEpoch {
 public:
  /// The same number on every rank.
  int64_t batches() const { return batches_; }
  /// The indices of this rank's part of batch `k`, 0 <= k < batches(); empty only with
  /// LastBatch::kKeep.
  std::span<const int64_t> batch(int64_t k) const;

 private:
  friend class DistributedSampler;
  std::shared_ptr<const std::vector<int64_t>> order_;  // padded or cut already
  SamplerOptions options_;
  int64_t batches_ = 0;
};

class DistributedSampler {
 public:
  /// Throws ArgumentError for sizes below 1, a rank outside the world, a global batch larger than
  /// the data set (unless kKeep; there would be no whole batch), or with kError for samples that do
  /// not fill a last one.
  explicit DistributedSampler(const SamplerOptions& options);

  const SamplerOptions& options() const { return options_; }
  /// Batches in every epoch, on every rank.
  int64_t batches() const;
  /// The order of epoch number `epoch` >= 0. With `shuffle` each epoch has another; there is
  /// nothing to call in between.
  SampledEpoch epoch(int64_t epoch) const;

 private:
  SamplerOptions options_;
};

}  // namespace lockstep
