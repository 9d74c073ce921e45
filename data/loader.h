// Batches of a data set, prepared ahead by threads and delivered in the sampler's order.
#pragma once

#include "lockstep/data/dataset.h"
#include "lockstep/data/sampler.h"
#include "lockstep/tensor/tensor.h"

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

namespace lockstep {

struct Batch {
  Tensor inputs;   // f32 [N, H, W, C]
  Tensor targets;  // i64 [N]

  /// N; 0 is possible in the last batch of an evaluation (LastBatch::kKeep).
  int64_t size() const { return targets.dim(0); }
  /// All of them, in their order.
  std::array<Tensor*, 2> tensors() { return {&inputs, &targets}; }
};

/// Changes an image in place: an augmentation. Called from several threads, so what it does may
/// depend on its arguments only; then it does not depend on the number of threads and ranks either.
using ImageTransform = std::function<void(std::span<float> image, const ImageFormat& format,
                                          int64_t epoch, int64_t index)>;

struct LoaderOptions {
  int workers = 1;   // threads; 0: next() prepares the batch itself
  int prefetch = 2;  // batches prepared ahead at most, with workers
  ImageTransform transform = nullptr;
};

/// Yields each epoch's batches in order, whatever the number of workers:
///
///   loader.begin_epoch(epoch);
///   while (std::optional<Batch> batch = loader.next()) { ... }
///
/// Memory: prefetch batches beside those that the caller holds. Tensors are made in
/// next() alone, all of one size, so in a warm loop the allocator serves them from its cache. One
/// thread uses a loader; destroying it at any moment waits for the samples being read and no
/// longer.
class DataLoader {
 public:
  /// `dataset` is shared with the threads. Throws ArgumentError when the sampler is for another
  /// size or an option is negative.
  DataLoader(std::shared_ptr<const Dataset> dataset, const DistributedSampler& sampler,
             const LoaderOptions& options);
  ~DataLoader();
  DataLoader(const DataLoader&) = delete;
  DataLoader& operator=(const DataLoader&) = delete;

  /// Batches in every epoch.
  int64_t batches() const;
  const Dataset& dataset() const;

  /// Starts at batch `start_batch` of epoch `epoch` (0 <= start_batch <= batches()), giving up what
  /// was left of the epoch before.
  void begin_epoch(int64_t epoch, int64_t start_batch = 0);
  /// The next batch; none at the end of the epoch and before the first begin_epoch. Rethrows what
  /// reading a sample threw; the epoch is over then.
  std::optional<Batch> next();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lockstep
