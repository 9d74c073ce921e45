// StagingPool: host memory through which copies to a device go, so that whoever copies need not
// wait: the device reads the pool's block while the caller goes on to change its own memory.
// Internal to tensor/.
#pragma once

#include "lockstep/tensor/stream.h"

#include <cstddef>
#include <map>
#include <mutex>
#include <vector>

namespace lockstep {

/// Safe from any thread.
class StagingPool {
 public:
  /// `get` returns page-locked memory, or null when there is none. It is never given back: the
  /// driver may be gone by then.
  explicit StagingPool(void* (*get)(size_t bytes)) : get_(get) {}

  struct Block {
    void* memory = nullptr;
    size_t bytes = 0;
  };
  /// A block of at least `bytes` bytes, which may be 0, that nothing reads any more. Of one size
  /// there are kMostBlocks; when all are being read it waits for the one that was given first.
  /// Throws std::bad_alloc.
  Block take(size_t bytes);
  /// Takes a block back; it is read until `read`.
  void give(Block block, EventPtr read);

  static constexpr size_t kMostBlocks = 4;

 private:
  struct Given {
    void* memory;
    EventPtr read;
  };
  struct Size {
    size_t made = 0;
    std::vector<Given> given;  // in the order in which they came
  };

  void* (*get_)(size_t);
  std::mutex mutex_;
  std::map<size_t, Size> sizes_;
};

}  // namespace lockstep
