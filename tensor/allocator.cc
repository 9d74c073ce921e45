#include "lockstep/tensor/allocator.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <map>
#include <mutex>
#include <new>
#include <vector>

namespace lockstep {
namespace {

constexpr size_t kAlignment = 256;

class CachingCpuAllocator final : public Allocator {
 public:
  void* allocate(size_t bytes) override {
    const size_t rounded = size_class(bytes);
    std::lock_guard lock(mutex_);
    void* memory = nullptr;
    if (auto& blocks = free_[rounded]; !blocks.empty()) {
      memory = blocks.back();
      blocks.pop_back();
      ++stats_.hits;
      stats_.bytes_cached -= rounded;
    } else {
      memory = std::aligned_alloc(kAlignment, rounded);
      if (memory == nullptr) throw std::bad_alloc();
      ++stats_.misses;
    }
    stats_.bytes_in_use += rounded;
    stats_.peak_bytes_in_use = std::max(stats_.peak_bytes_in_use, stats_.bytes_in_use);
    return memory;
  }

  void deallocate(void* memory, size_t bytes) noexcept override {
    const size_t rounded = size_class(bytes);
    std::lock_guard lock(mutex_);
    stats_.bytes_in_use -= rounded;
    stats_.bytes_cached += rounded;
    free_[rounded].push_back(memory);
  }

  AllocatorStats stats() const override {
    std::lock_guard lock(mutex_);
    return stats_;
  }

  void release_cached() override {
    std::lock_guard lock(mutex_);
    for (auto& [size, blocks] : free_) {
      for (void* memory : blocks) std::free(memory);
      blocks.clear();
    }
    stats_.bytes_cached = 0;
  }

 private:
  mutable std::mutex mutex_;
  std::map<size_t, std::vector<void*>> free_;
  AllocatorStats stats_;
};

}  // namespace

size_t size_class(size_t bytes) {
  if (bytes <= kAlignment) return kAlignment;
  const size_t power = std::bit_floor(bytes);
  const size_t quarter = std::max(power / 4, kAlignment);
  return (bytes + quarter - 1) / quarter * quarter;
}

Allocator& cpu_allocator() {
  // Never destroyed: tensors with static lifetime may outlive any order of destruction.
  static auto* allocator = new CachingCpuAllocator;
  return *allocator;
}

}  // namespace lockstep
