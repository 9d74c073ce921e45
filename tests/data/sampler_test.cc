#include "lockstep/data/sampler.h"

#include "lockstep/base/error.h"

#include <doctest/doctest.h>
#include <algorithm>
#include <map>
#include <set>
#include <vector>

using namespace lockstep;

namespace {

SampledEpoch epoch_of(SamplerOptions options, int rank, int world, int64_t epoch) {
  options.rank = rank;
  options.world_size = world;
  return DistributedSampler(options).epoch(epoch);
}

// All ranks' parts of batch k, one after the other.
std::vector<int64_t> global_batch(const SamplerOptions& options, int world, int64_t epoch,
                                  int64_t k) {
  std::vector<int64_t> all;
  for (int rank = 0; rank < world; ++rank) {
    const SampledEpoch sampled = epoch_of(options, rank, world, epoch);
    const auto part = sampled.batch(k);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

std::vector<int64_t> all_samples(const SamplerOptions& options, int world, int64_t epoch) {
  std::vector<int64_t> all;
  for (int64_t k = 0; k < epoch_of(options, 0, world, epoch).batches(); ++k) {
    const auto batch = global_batch(options, world, epoch, k);
    all.insert(all.end(), batch.begin(), batch.end());
  }
  return all;
}

constexpr LastBatch kAll[] = {LastBatch::kDrop, LastBatch::kPad, LastBatch::kKeep};

}  // namespace

TEST_CASE("N ranks with batch b see the global batches of one process with batch N * b") {
  // 12 divides by every world size; sizes with a last batch of every kind of length.
  for (int64_t size : {12, 13, 23, 24, 25, 100}) {
    for (LastBatch last : kAll) {
      for (bool shuffle : {true, false}) {
        SamplerOptions one{
            .size = size, .batch_size = 12, .seed = 7, .shuffle = shuffle, .last_batch = last};
        for (int world : {2, 3, 4}) {
          SamplerOptions many = one;
          many.batch_size = 12 / world;
          const int64_t batches = epoch_of(one, 0, 1, 3).batches();
          for (int rank = 0; rank < world; ++rank) {
            CHECK(epoch_of(many, rank, world, 3).batches() == batches);
          }
          for (int64_t k = 0; k < batches; ++k) {
            CHECK(global_batch(many, world, 3, k) == global_batch(one, 1, 3, k));
          }
        }
      }
    }
  }
}

TEST_CASE("evaluation counts every sample once, whatever the number of ranks") {
  for (int world : {1, 2, 3, 4}) {
    for (int64_t size : {1, 2, 5, 8, 97, 100}) {
      SamplerOptions options{
          .size = size, .batch_size = 4, .shuffle = false, .last_batch = LastBatch::kKeep};
      std::vector<int64_t> seen = all_samples(options, world, 0);
      CHECK(static_cast<int64_t>(seen.size()) == size);
      for (size_t i = 0; i < seen.size(); ++i) CHECK(seen[i] == static_cast<int64_t>(i));
    }
  }
}

TEST_CASE("the ranks' parts of a short last batch differ by one at most and may be empty") {
  SamplerOptions options{
      .size = 14, .batch_size = 4, .shuffle = false, .last_batch = LastBatch::kKeep};
  std::vector<size_t> counts;
  for (int rank = 0; rank < 3; ++rank)
    counts.push_back(epoch_of(options, rank, 3, 0).batch(1).size());
  std::sort(counts.begin(), counts.end());
  CHECK(counts == std::vector<size_t>{0, 1, 1});
}

TEST_CASE("drop leaves less than a global batch out, and no sample comes twice") {
  for (int world : {1, 2, 3, 4}) {
    SamplerOptions options{.size = 101, .batch_size = 5, .seed = 3, .last_batch = LastBatch::kDrop};
    const std::vector<int64_t> seen = all_samples(options, world, 1);
    CHECK(static_cast<int64_t>(seen.size()) == 101 / (5 * world) * 5 * world);
    CHECK(std::set<int64_t>(seen.begin(), seen.end()).size() == seen.size());
  }
}

TEST_CASE("error refuses samples that do not fill a last batch, with the numbers") {
  const SamplerOptions options{
      .size = 101, .batch_size = 5, .world_size = 3, .last_batch = LastBatch::kError};
  CHECK_THROWS_WITH_AS(
      DistributedSampler{options},
      doctest::Contains("101 samples are 6 global batches of 3 x 5 and 11 samples"), ArgumentError);
  SamplerOptions even = options;
  even.size = 105;
  CHECK(DistributedSampler(even).batches() == 7);
  CHECK(all_samples(even, 3, 1).size() == 105);
}

TEST_CASE("pad gives every rank full batches, every sample, and the fewest repetitions") {
  for (int world : {1, 2, 3, 4}) {
    SamplerOptions options{.size = 101, .batch_size = 5, .seed = 3, .last_batch = LastBatch::kPad};
    for (int rank = 0; rank < world; ++rank) {
      const SampledEpoch sampled = epoch_of(options, rank, world, 1);
      for (int64_t k = 0; k < sampled.batches(); ++k) CHECK(sampled.batch(k).size() == 5);
    }
    const std::vector<int64_t> seen = all_samples(options, world, 1);
    std::map<int64_t, int> times;
    for (int64_t index : seen) ++times[index];
    CHECK(times.size() == 101);
    CHECK(times.begin()->first == 0);
    CHECK(times.rbegin()->first == 100);
    CHECK(static_cast<int64_t>(seen.size()) - 101 < 5 * world);
    for (const auto& [index, count] : times) CHECK(count <= 2);
  }
}

TEST_CASE("epochs and seeds have orders of their own, and the same ones every time") {
  SamplerOptions options{.size = 50, .batch_size = 10, .seed = 1};
  std::set<std::vector<int64_t>> orders;
  for (int64_t epoch = 0; epoch < 5; ++epoch) {
    const auto order = all_samples(options, 1, epoch);
    CHECK(order == all_samples(options, 1, epoch));
    orders.insert(order);
  }
  options.seed = 2;
  orders.insert(all_samples(options, 1, 0));
  CHECK(orders.size() == 6);
  options.shuffle = false;
  CHECK(all_samples(options, 1, 0) == all_samples(options, 1, 1));
}

TEST_CASE("a shuffle puts each sample at each place equally often") {
  // 4000 shuffles of 5: each cell of the table expects 800 with a standard deviation of 25.
  int table[5][5] = {};
  SamplerOptions options{.size = 5, .batch_size = 5};
  const DistributedSampler sampler(options);
  for (int64_t epoch = 0; epoch < 4000; ++epoch) {
    const SampledEpoch sampled = sampler.epoch(epoch);
    for (size_t place = 0; place < 5; ++place) ++table[sampled.batch(0)[place]][place];
  }
  for (const auto& row : table) {
    for (int count : row) CHECK(std::abs(count - 800) < 125);
  }
}

TEST_CASE("options that make no sense are refused") {
  const auto make = [](SamplerOptions options) { DistributedSampler sampler(options); };
  make({.size = 1});
  CHECK_THROWS_AS(make({.size = 0}), ArgumentError);
  CHECK_THROWS_AS(make({.size = 10, .batch_size = 0}), ArgumentError);
  CHECK_THROWS_AS(make({.size = 10, .batch_size = -4}), ArgumentError);
  CHECK_THROWS_AS(make({.size = 10, .batch_size = INT64_MAX}), ArgumentError);
  CHECK_THROWS_AS(make({.size = 10, .rank = 2, .world_size = 2}), ArgumentError);
  CHECK_THROWS_AS(make({.size = 10, .rank = -1}), ArgumentError);
  CHECK_THROWS_WITH_AS(make({.size = 10, .batch_size = 6, .world_size = 2}),
                       doctest::Contains("larger than the data set (10 samples)"), ArgumentError);
  make({.size = 10, .batch_size = 6, .world_size = 2, .last_batch = LastBatch::kKeep});
  const DistributedSampler sampler({.size = 10, .batch_size = 5});
  CHECK_THROWS_AS(sampler.epoch(-1), ArgumentError);
  CHECK_THROWS_AS(sampler.epoch(0).batch(2), ArgumentError);
}
