#include "lockstep/tensor/staging_pool.h"

#include "lockstep/tensor/allocator.h"

#include <new>
#include <utility>

namespace lockstep {

StagingPool::Block StagingPool::take(size_t bytes) {
  const size_t rounded = size_class(bytes);
  Given first{nullptr, nullptr};
  {
    const std::lock_guard lock(mutex_);
    Size& size = sizes_[rounded];
    const bool waits = !size.given.empty() && !size.given.front().read->done();
    if (size.given.empty() || (waits && size.made < kMostBlocks)) {
      void* const memory = get_(rounded);
      if (memory == nullptr) throw std::bad_alloc();
      ++size.made;
      return {memory, rounded};
    }
    first = std::move(size.given.front());
    size.given.erase(size.given.begin());
  }
  first.read->wait_host();
  return {first.memory, rounded};
}

void StagingPool::give(Block block, EventPtr read) {
  const std::lock_guard lock(mutex_);
  sizes_[block.bytes].given.push_back({block.memory, std::move(read)});
}

}  // namespace lockstep
