#include "lockstep/data/loader.h"

#include "lockstep/base/error.h"
#include "lockstep/tensor/allocator.h"

#include <doctest/doctest.h>
#include <atomic>
#include <chrono>
#include <csignal>
#include <stdexcept>
#include <thread>
#include <vector>

using namespace lockstep;

namespace {

// Sample i is an image of i's, labelled i % 10. Odd samples are slow, so that threads overtake each
// other.
class Numbers final : public Dataset {
 public:
  explicit Numbers(int64_t size, int64_t fails_at = -1) : size_(size), fails_at_(fails_at) {}
  int64_t size() const override { return size_; }
  int64_t classes() const override { return 10; }
  ImageFormat format() const override { return {.height = 2, .width = 3, .channels = 1}; }
  int64_t get(int64_t index, std::span<float> image) const override {
    reads.fetch_add(1);
    if (index % 2 == 1) std::this_thread::sleep_for(std::chrono::microseconds(200));
    if (index == fails_at_) throw std::runtime_error("sample is broken");
    for (float& value : image) value = static_cast<float>(index);
    return index % 10;
  }
  mutable std::atomic<int64_t> reads{0};

 private:
  int64_t size_, fails_at_;
};

std::vector<float> drain(DataLoader& loader) {
  std::vector<float> seen;
  while (auto batch = loader.next()) {
    const auto inputs = batch->inputs.to_vector<float>();
    const auto targets = batch->targets.to_vector<int64_t>();
    CHECK(batch->inputs.shape() == Shape({batch->size(), 2, 3, 1}));
    for (size_t i = 0; i < targets.size(); ++i) {
      CHECK(targets[i] == static_cast<int64_t>(inputs[i * 6]) % 10);
      CHECK(inputs[i * 6] == inputs[i * 6 + 5]);
      seen.push_back(inputs[i * 6]);
    }
  }
  return seen;
}

}  // namespace

TEST_CASE("the order does not depend on the number of threads") {
  const auto data = std::make_shared<Numbers>(53);
  const DistributedSampler sampler(
      {.size = 53, .batch_size = 4, .seed = 5, .last_batch = LastBatch::kKeep});
  DataLoader reference(data, sampler, {.workers = 0});
  for (int workers : {1, 2, 3, 8}) {
    for (int prefetch : {1, 2, 5, 40}) {
      DataLoader loader(data, sampler, {.workers = workers, .prefetch = prefetch});
      for (int64_t epoch : {0, 1, 7}) {
        reference.begin_epoch(epoch);
        loader.begin_epoch(epoch);
        const std::vector<float> wanted = drain(reference);
        CHECK(wanted.size() == 53);
        CHECK(drain(loader) == wanted);
        CHECK(!loader.next());
      }
    }
  }
}

TEST_CASE("an epoch can be entered and left at any batch") {
  const auto data = std::make_shared<Numbers>(40);
  const DistributedSampler sampler({.size = 40, .batch_size = 4, .seed = 5});
  for (int workers : {0, 3}) {
    DataLoader loader(data, sampler, {.workers = workers, .prefetch = 3});
    CHECK(!loader.next());
    loader.begin_epoch(2);
    const std::vector<float> whole = drain(loader);
    for (int64_t start = 0; start <= loader.batches(); ++start) {
      loader.begin_epoch(1);
      loader.next();  // and the rest of epoch 1 is given up
      loader.begin_epoch(2, start);
      CHECK(drain(loader) == std::vector<float>(whole.begin() + start * 4, whole.end()));
    }
    CHECK_THROWS_AS(loader.begin_epoch(0, 11), ArgumentError);
    CHECK_THROWS_AS(loader.begin_epoch(0, -1), ArgumentError);
  }
}

TEST_CASE("a batch may be empty on a rank, and is delivered") {
  const auto data = std::make_shared<Numbers>(9);
  int64_t seen = 0;
  for (int rank = 0; rank < 2; ++rank) {
    const DistributedSampler sampler({.size = 9,
                                      .batch_size = 4,
                                      .rank = rank,
                                      .world_size = 2,
                                      .shuffle = false,
                                      .last_batch = LastBatch::kKeep});
    DataLoader loader(data, sampler, {});
    loader.begin_epoch(0);
    int64_t batches = 0;
    while (auto batch = loader.next()) {
      ++batches;
      seen += batch->size();
    }
    CHECK(batches == 2);
  }
  CHECK(seen == 9);
}

TEST_CASE("what a sample throws comes out of next(), after the batches before it") {
  const auto data = std::make_shared<Numbers>(40, 21);
  const DistributedSampler sampler({.size = 40, .batch_size = 4, .shuffle = false});
  for (int workers : {0, 1, 4}) {
    DataLoader loader(data, sampler, {.workers = workers, .prefetch = 4});
    for (int64_t epoch = 0; epoch < 2; ++epoch) {
      loader.begin_epoch(epoch);
      for (int k = 0; k < 5; ++k) CHECK(loader.next()->size() == 4);
      CHECK_THROWS_WITH_AS(loader.next(), "sample is broken", std::runtime_error);
      CHECK(!loader.next());
    }
  }
}

TEST_CASE("prefetching is bounded") {
  const auto data = std::make_shared<Numbers>(400);
  const DistributedSampler sampler({.size = 400, .batch_size = 4});
  DataLoader loader(data, sampler, {.workers = 4, .prefetch = 3});
  loader.begin_epoch(0);
  loader.next();
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  CHECK(data->reads <= 4 * (1 + 3));
}

TEST_CASE("destruction in mid-epoch does not read the rest") {
  const auto data = std::make_shared<Numbers>(100000);
  const DistributedSampler sampler({.size = 100000, .batch_size = 10000});
  for (int i = 0; i < 20; ++i) {
    DataLoader loader(data, sampler, {.workers = 1 + i % 4, .prefetch = 4});
    if (i % 5 != 0) loader.begin_epoch(i);
    std::this_thread::sleep_for(std::chrono::microseconds(100 * i));
  }
  CHECK(data->reads < 100000);
}

TEST_CASE("a transform sees the epoch and the sample, not the thread") {
  const auto data = std::make_shared<Numbers>(40);
  const auto transform = [](std::span<float> image, const ImageFormat&, int64_t epoch,
                            int64_t index) {
    for (float& value : image)
      value += 1000.0f * static_cast<float>(epoch) + 10.0f * static_cast<float>(index);
  };
  const DistributedSampler sampler({.size = 40, .batch_size = 8, .shuffle = false});
  for (int workers : {0, 2}) {
    DataLoader loader(data, sampler, {.workers = workers, .transform = transform});
    loader.begin_epoch(3);
    loader.next();
    const auto batch = loader.next();
    CHECK(batch->inputs.data<float>()[6] == 3000.0f + 90.0f + 9.0f);
  }
}

TEST_CASE("a warm loader asks the allocator for nothing new") {
  const auto data = std::make_shared<Numbers>(1003);
  const DistributedSampler sampler(
      {.size = 1003, .batch_size = 16, .last_batch = LastBatch::kKeep});
  for (int workers : {0, 3}) {
    DataLoader loader(data, sampler, {.workers = workers, .prefetch = 4});
    std::optional<Batch> held;  // as a training loop holds the batch that it works on
    const auto run = [&](int64_t epoch) {
      loader.begin_epoch(epoch);
      while (auto batch = loader.next()) held = std::move(batch);
    };
    run(0);
    const uint64_t misses = cpu_allocator().stats().misses;
    for (int64_t epoch = 1; epoch < 4; ++epoch) run(epoch);
    CHECK(cpu_allocator().stats().misses == misses);
  }
}

TEST_CASE("options that make no sense are refused") {
  const auto data = std::make_shared<Numbers>(10);
  const DistributedSampler sampler({.size = 10});
  const auto make = [&](std::shared_ptr<const Dataset> dataset, LoaderOptions options) {
    DataLoader loader(std::move(dataset), sampler, options);
  };
  CHECK_THROWS_AS(make(nullptr, {}), ArgumentError);
  CHECK_THROWS_AS(make(std::make_shared<Numbers>(11), {}), ArgumentError);
  CHECK_THROWS_AS(make(data, {.workers = -1}), ArgumentError);
  CHECK_THROWS_AS(make(data, {.prefetch = 0}), ArgumentError);
}

TEST_CASE("a program's signals are not taken by the loader's threads") {
  class Signals final : public Dataset {
   public:
    int64_t size() const override { return 8; }
    int64_t classes() const override { return 2; }
    ImageFormat format() const override { return {.height = 1, .width = 1, .channels = 1}; }
    int64_t get(int64_t, std::span<float>) const override {
      sigset_t blocked;
      pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
      return sigismember(&blocked, SIGTERM);
    }
  };
  DataLoader loader(std::make_shared<Signals>(), DistributedSampler({.size = 8, .batch_size = 8}),
                    {.workers = 2});
  loader.begin_epoch(0);
  CHECK(loader.next()->targets.to_vector<int64_t>() == std::vector<int64_t>(8, 1));
}
