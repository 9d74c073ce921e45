#include "lockstep/data/sampler.h"

#include "lockstep/base/error.h"
#include "lockstep/data/random_streams.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace lockstep {
namespace {

// Fisher-Yates. A 64-bit word times the range, shifted down, is uniform up to range / 2^64.
void shuffle(std::vector<int64_t>& order, uint64_t seed) {
  for (size_t i = order.size(); i > 1; --i) {
    const auto words = philox4x32(seed, i);
    const uint64_t random = uint64_t{words[0]} << 32 | words[1];
    const auto j = static_cast<size_t>(static_cast<unsigned __int128>(random) * i >> 64);
    std::swap(order[i - 1], order[j]);
  }
}

int64_t global_batch(const SamplerOptions& options) {
  return options.batch_size * options.world_size;
}

}  // namespace

std::span<const int64_t> SampledEpoch::batch(int64_t k) const {
  check(0 <= k && k < batches_, "SampledEpoch::batch: wanted a batch in [0, ", batches_, "), got ",
        k);
  const int64_t global = global_batch(options_);
  const int64_t begin = k * global;
  const int64_t count = std::min(global, static_cast<int64_t>(order_->size()) - begin);
  const int64_t first = begin + count * options_.rank / options_.world_size;
  const int64_t last = begin + count * (options_.rank + 1) / options_.world_size;
  return std::span(*order_).subspan(static_cast<size_t>(first), static_cast<size_t>(last - first));
}

DistributedSampler::DistributedSampler(const SamplerOptions& options) : options_(options) {
  const auto& [size, batch_size, rank, world_size, seed, shuffled, last_batch] = options_;
  constexpr int64_t kMost = int64_t{1} << 31;
  check(size >= 1, "DistributedSampler: wanted at least one sample, got ", size);
  check(batch_size >= 1 && batch_size <= kMost, "DistributedSampler: wanted a batch size in [1, ",
        kMost, "], got ", batch_size);
  check(world_size >= 1 && rank >= 0 && rank < world_size,
        "DistributedSampler: wanted 0 <= rank < world size, got rank ", rank, " of ", world_size);
  check(last_batch == LastBatch::kKeep || global_batch(options_) <= size,
        "DistributedSampler: the global batch (", world_size, " x ", batch_size, " = ",
        global_batch(options_), ") is larger than the data set (", size,
        " samples); choose a smaller batch size");
  const int64_t rest = size % global_batch(options_);
  check(last_batch != LastBatch::kError || rest == 0, "DistributedSampler: ", size, " samples are ",
        size / global_batch(options_), " global batches of ", world_size, " x ", batch_size,
        " and ", rest,
        " samples more, which some ranks would lack; pad, drop or join "
        "them, or choose another batch size");
}

int64_t DistributedSampler::batches() const {
  const int64_t global = global_batch(options_);
  return options_.last_batch == LastBatch::kDrop ? options_.size / global
                                                 : (options_.size + global - 1) / global;
}

SampledEpoch DistributedSampler::epoch(int64_t epoch) const {
  check(epoch >= 0, "DistributedSampler::epoch: wanted a number from 0, got ", epoch);
  std::vector<int64_t> order(static_cast<size_t>(options_.size));
  std::iota(order.begin(), order.end(), int64_t{0});
  if (options_.shuffle) {
    shuffle(order,
            stream_seed(options_.seed, RandomPurpose::kShuffle, static_cast<uint64_t>(epoch)));
  }
  if (options_.last_batch != LastBatch::kKeep) {
    const size_t used = static_cast<size_t>(batches() * global_batch(options_));
    const size_t real = order.size();
    order.resize(used);
    // Less than one global batch is missing, and that is at most `real`.
    for (size_t i = real; i < used; ++i) order[i] = order[i - real];
  }
  SampledEpoch sampled;
  sampled.order_ = std::make_shared<const std::vector<int64_t>>(std::move(order));
  sampled.options_ = options_;
  sampled.batches_ = batches();
  return sampled;
}

}  // namespace lockstep
