#include "lockstep/tensor/allocator.h"

#include "lockstep/tensor/caching_allocator.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <new>

namespace lockstep {
namespace {

constexpr size_t kAlignment = 256;

void* get_from_host(size_t bytes) { return std::aligned_alloc(kAlignment, bytes); }
void give_to_host(void* memory) { std::free(memory); }

}  // namespace

void* CachingAllocator::allocate(size_t bytes) {
  const size_t rounded = size_class(bytes);
  const void* const stream = stream_ != nullptr ? stream_() : nullptr;
  std::unique_lock lock(mutex_);
  void* memory = nullptr;
  if (auto& blocks = free_[{stream, rounded}]; !blocks.empty()) {
    memory = blocks.back();
    blocks.pop_back();
    ++stats_.hits;
    stats_.bytes_cached -= rounded;
  } else {
    // A driver may wait for its device here, and nobody who frees memory meanwhile shall.
    lock.unlock();
    memory = get_(rounded);
    if (memory == nullptr) {
      release_cached();  // blocks of other sizes may make room
      memory = get_(rounded);
    }
    if (memory == nullptr) throw std::bad_alloc();
    lock.lock();
    if (stream_ != nullptr) owners_[memory] = stream;
    ++stats_.misses;
  }
  stats_.bytes_in_use += rounded;
  stats_.peak_bytes_in_use = std::max(stats_.peak_bytes_in_use, stats_.bytes_in_use);
  return memory;
}

void CachingAllocator::deallocate(void* memory, size_t bytes) noexcept {
  const size_t rounded = size_class(bytes);
  std::lock_guard lock(mutex_);
  stats_.bytes_in_use -= rounded;
  const auto owner = owners_.find(memory);
  try {
    free_[{owner == owners_.end() ? nullptr : owner->second, rounded}].push_back(memory);
    stats_.bytes_cached += rounded;
  } catch (const std::bad_alloc&) {  // no memory for the note: the block cannot be kept
    if (owner != owners_.end()) owners_.erase(owner);
    put_(memory);
  }
}

AllocatorStats CachingAllocator::stats() const {
  std::lock_guard lock(mutex_);
  return stats_;
}

void CachingAllocator::release_cached() {
  for (void* memory : take_cached()) put_(memory);
}

std::vector<void*> CachingAllocator::take_cached() {
  std::lock_guard lock(mutex_);
  std::vector<void*> taken;
  for (auto& [key, blocks] : free_) {
    if (held_.contains(key.first)) continue;
    stats_.bytes_cached -= key.second * blocks.size();
    taken.insert(taken.end(), blocks.begin(), blocks.end());
    blocks.clear();
  }
  for (void* memory : taken) owners_.erase(memory);
  return taken;
}

void CachingAllocator::hold(const void* stream, bool on) {
  std::lock_guard lock(mutex_);
  if (on) {
    held_.insert(stream);
  } else {
    held_.erase(stream);
  }
}

size_t size_class(size_t bytes) {
  if (bytes <= kAlignment) return kAlignment;
  const size_t power = std::bit_floor(bytes);
  const size_t quarter = std::max(power / 4, kAlignment);
  return (bytes + quarter - 1) / quarter * quarter;
}

Allocator& cpu_allocator() {
  // Never destroyed: tensors with static lifetime may outlive any order of destruction.
  static auto* allocator = new CachingAllocator(get_from_host, give_to_host);
  return *allocator;
}

}  // namespace lockstep
