#include "lockstep/tensor/allocator.h"

#include "lockstep/tensor/caching_allocator.h"
#include "lockstep/tensor/tensor.h"

#include <doctest/doctest.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

TEST_CASE("size classes: ordered, aligned, at most a quarter lost above 1 KiB") {
  CHECK(size_class(0) == 256);
  CHECK(size_class(256) == 256);
  CHECK(size_class(257) == 512);
  CHECK(size_class(1025) == 1280);
  CHECK(size_class(1281) == 1536);
  CHECK(size_class(1793) == 2048);
  CHECK(size_class(size_t{1} << 30) == size_t{1} << 30);
  size_t before = 0;
  for (size_t bytes = 1; bytes < 100000; bytes += 37) {
    const size_t rounded = size_class(bytes);
    CHECK(rounded >= bytes);
    CHECK(rounded % 256 == 0);
    CHECK(rounded >= before);
    CHECK(size_class(rounded) == rounded);
    if (bytes > 1024) CHECK(static_cast<double>(rounded) <= 1.25 * static_cast<double>(bytes));
    before = rounded;
  }
}

TEST_CASE("allocator: a block comes back, and the counters tell") {
  Allocator& allocator = cpu_allocator();
  allocator.release_cached();
  const AllocatorStats start = allocator.stats();
  CHECK(start.bytes_cached == 0);
  const std::byte* first = nullptr;
  {
    const Tensor t = Tensor::empty({1000}, DType::kF32);
    first = t.raw();
    const AllocatorStats now = allocator.stats();
    CHECK(now.misses == start.misses + 1);
    CHECK(now.bytes_in_use == start.bytes_in_use + 4096);
    CHECK(now.peak_bytes_in_use >= now.bytes_in_use);
  }
  CHECK(allocator.stats().bytes_cached == 4096);
  CHECK(allocator.stats().bytes_in_use == start.bytes_in_use);
  {
    const Tensor t = Tensor::empty({990}, DType::kF32);  // of the same size class
    CHECK(t.raw() == first);
    CHECK(allocator.stats().hits == start.hits + 1);
    CHECK(allocator.stats().misses == start.misses + 1);
    const Tensor other =
        Tensor::empty({1000}, DType::kF32);  // while the first is held: a block of its own
    CHECK(other.raw() != first);
    CHECK(allocator.stats().misses == start.misses + 2);
  }
  allocator.release_cached();
  CHECK(allocator.stats().bytes_cached == 0);
}

TEST_CASE("allocator: what the system cannot give is bad_alloc, and nothing is counted") {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  std::puts("SKIPPED: a sanitizer ends the process instead of letting malloc fail");
#else
  const AllocatorStats before = cpu_allocator().stats();
  CHECK_THROWS_AS(cpu_allocator().allocate(size_t{1} << 60), std::bad_alloc);
  CHECK(cpu_allocator().stats().bytes_in_use == before.bytes_in_use);
  CHECK(cpu_allocator().stats().misses == before.misses);
#endif
}

const void* stream_of_test = nullptr;

TEST_CASE("allocator: a block is reused by the stream on which it was allocated alone") {
  const int one = 0, other = 0;
  CachingAllocator allocator([](size_t bytes) { return std::aligned_alloc(256, bytes); }, std::free,
                             [] { return stream_of_test; });
  stream_of_test = &one;
  void* const first = allocator.allocate(1000);
  stream_of_test = &other;
  allocator.deallocate(first, 1000);  // from wherever
  void* const second = allocator.allocate(1000);
  CHECK(second != first);
  stream_of_test = &one;
  CHECK(allocator.allocate(1000) == first);
  CHECK(allocator.stats().hits == 1);
  allocator.deallocate(first, 1000);
  allocator.deallocate(second, 1000);
  CHECK(allocator.stats().bytes_cached == 2 * size_class(1000));
  allocator.release_cached();
  CHECK(allocator.stats().bytes_cached == 0);
}

TEST_CASE("allocator: blocks of a stream that is held stay, whatever is released") {
  const int one = 0, other = 0;
  CachingAllocator allocator([](size_t bytes) { return std::aligned_alloc(256, bytes); }, std::free,
                             [] { return stream_of_test; });
  stream_of_test = &one;
  void* const block = allocator.allocate(1000);
  allocator.deallocate(block, 1000);
  stream_of_test = &other;
  allocator.deallocate(allocator.allocate(5000), 5000);
  allocator.hold(&one, true);
  allocator.release_cached();
  CHECK(allocator.stats().bytes_cached == size_class(1000));
  stream_of_test = &one;
  CHECK(allocator.allocate(1000) == block);
  allocator.deallocate(block, 1000);
  allocator.hold(&one, false);
  allocator.release_cached();
  CHECK(allocator.stats().bytes_cached == 0);
}

CachingAllocator* allocator_of_test = nullptr;
void* block_of_test = nullptr;

TEST_CASE("allocator: a thread can give memory back while another waits for the driver") {
  CachingAllocator allocator(
      [](size_t bytes) {
        if (block_of_test != nullptr) {
          std::thread other(
              [] { allocator_of_test->deallocate(std::exchange(block_of_test, nullptr), 1000); });
          other.join();  // for ever, if the allocator is locked meanwhile
        }
        return std::aligned_alloc(256, bytes);
      },
      std::free);
  allocator_of_test = &allocator;
  void* const block = allocator.allocate(1000);
  block_of_test = block;
  void* const larger = allocator.allocate(5000);
  CHECK(allocator.stats().bytes_cached == size_class(1000));
  CHECK(allocator.allocate(1000) == block);
  allocator.deallocate(block, 1000);
  allocator.deallocate(larger, 5000);
  allocator.release_cached();
}

TEST_CASE("allocator: from many threads, no block is handed out twice") {
  constexpr int kThreads = 4;
  constexpr int kRounds = 2000;
  Allocator& allocator = cpu_allocator();
  const size_t in_use = allocator.stats().bytes_in_use;
  std::atomic<int> damaged{0};
  std::vector<std::thread> threads;
  for (int id = 0; id < kThreads; ++id) {
    threads.emplace_back([&, id] {
      std::vector<std::pair<unsigned char*, size_t>> held;
      const auto give_back = [&] {
        const auto [memory, bytes] = held.back();
        held.pop_back();
        for (size_t i = 0; i < bytes; ++i)
          damaged += memory[i] != static_cast<unsigned char>(id + 1);
        allocator.deallocate(memory, bytes);
      };
      for (int round = 0; round < kRounds; ++round) {
        const size_t bytes = static_cast<size_t>(64 + round * 131 % 2000);
        auto* memory = static_cast<unsigned char*>(allocator.allocate(bytes));
        std::memset(memory, id + 1, bytes);
        held.emplace_back(memory, bytes);
        while (held.size() > static_cast<size_t>(round % 7)) give_back();
      }
      while (!held.empty()) give_back();
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(damaged == 0);
  CHECK(allocator.stats().bytes_in_use == in_use);
}

}  // namespace
}  // namespace lockstep
