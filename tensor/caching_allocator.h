// CachingAllocator: keeps freed blocks by size class. Internal to tensor/; see allocator.h.
#pragma once

#include "lockstep/tensor/allocator.h"

#include <map>
#include <mutex>
#include <vector>

namespace lockstep {

class CachingAllocator final : public Allocator {
 public:
  /// `get` returns new memory, aligned to 256 bytes, or null when there is none; `put` gives it
  /// back.
  CachingAllocator(void* (*get)(size_t bytes), void (*put)(void* memory)) : get_(get), put_(put) {}

  void* allocate(size_t bytes) override;
  void deallocate(void* memory, size_t bytes) noexcept override;
  AllocatorStats stats() const override;
  void release_cached() override;

 private:
  void release_locked();

  void* (*get_)(size_t);
  void (*put_)(void*);
  mutable std::mutex mutex_;
  std::map<size_t, std::vector<void*>> free_;
  AllocatorStats stats_;
};

}  // namespace lockstep
