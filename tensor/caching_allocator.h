// CachingAllocator: keeps freed blocks by size class. Internal to tensor/; see allocator.h.
//
// On a device a block is freed while kernels that use it may still wait on a stream. The stream on
// which it was allocated may reuse it all the same, for what it enqueues next comes later; no other
// stream may. So each block belongs to one stream for good.
#pragma once

#include "lockstep/tensor/allocator.h"

#include <map>
#include <mutex>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

namespace lockstep {

class CachingAllocator final : public Allocator {
 public:
  /// `get` returns new memory, aligned to 256 bytes, or null when there is none; `put` gives it
  /// back. `stream` tells the calling thread's current stream; null: blocks belong to nobody.
  CachingAllocator(void* (*get)(size_t bytes), void (*put)(void* memory),
                   const void* (*stream)() = nullptr)
      : get_(get), put_(put), stream_(stream) {}

  void* allocate(size_t bytes) override;
  void deallocate(void* memory, size_t bytes) noexcept override;
  AllocatorStats stats() const override;
  void release_cached() override;
  void hold(const void* stream, bool on) override;

 private:
  /// Blocks of one stream and one size.
  using Key = std::pair<const void*, size_t>;
  /// Empties the cache, but for streams that are held, and returns the blocks that were in it.
  std::vector<void*> take_cached();

  void* (*get_)(size_t);
  void (*put_)(void*);
  const void* (*stream_)();
  mutable std::mutex mutex_;
  std::map<Key, std::vector<void*>> free_;
  std::unordered_map<void*, const void*> owners_;  // the stream of each block, where there are any
  std::set<const void*> held_;
  AllocatorStats stats_;
};

}  // namespace lockstep
