#include "lockstep/tensor/staging_pool.h"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdlib>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

namespace lockstep {
namespace {

/// Read until finish().
class Reading final : public Event {
 public:
  bool done() const override {
    const std::lock_guard lock(mutex_);
    return done_;
  }
  void wait_host() const override {
    while (!done()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  int64_t nanoseconds_since(const Event&) const override { return 0; }
  void finish() {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }

 private:
  mutable std::mutex mutex_;
  bool done_ = false;
};

std::vector<void*> made;
void* make(size_t bytes) {
  made.push_back(std::malloc(bytes));
  return made.back();
}
void* make_none(size_t) { return nullptr; }

TEST_CASE("a block is not handed out while it is read, and reused when it is not") {
  made.clear();
  StagingPool pool(make);
  std::vector<std::shared_ptr<Reading>> reads;
  for (size_t i = 0; i < StagingPool::kMostBlocks; ++i) {
    const StagingPool::Block block = pool.take(1000);
    CHECK(block.bytes >= 1000);
    CHECK(made.size() == i + 1);
    reads.push_back(std::make_shared<Reading>());
    pool.give(block, reads.back());
  }
  // All are being read: the first one is waited for.
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
    reads[0]->finish();
  });
  const StagingPool::Block again = pool.take(990);
  CHECK(reads[0]->done());
  later.join();
  CHECK(again.memory == made[0]);
  CHECK(made.size() == StagingPool::kMostBlocks);
  reads[1]->finish();
  CHECK(pool.take(1000).memory == made[1]);
  const StagingPool::Block large = pool.take(100'000);  // of another size
  CHECK(large.memory == made.back());
  CHECK(made.size() == StagingPool::kMostBlocks + 1);
  for (void* memory : made) std::free(memory);
}

TEST_CASE("without memory it throws") {
  StagingPool pool(make_none);
  CHECK_THROWS_AS(pool.take(1), std::bad_alloc);
}

}  // namespace
}  // namespace lockstep
