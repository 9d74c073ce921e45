// Memory for tensors. Blocks are rounded up to size classes and kept for reuse, so that with fixed
// shapes a warm training step asks the system for nothing: `misses` stays where it is.
#pragma once

#include "lockstep/tensor/device.h"

#include <cstddef>
#include <cstdint>

namespace lockstep {

struct AllocatorStats {
  uint64_t hits = 0;        // requests served from the cache
  uint64_t misses = 0;      // requests that went to the system
  size_t bytes_in_use = 0;  // handed out, rounded to size classes
  size_t bytes_cached = 0;  // kept for reuse
  size_t peak_bytes_in_use = 0;
};

class Allocator {
 public:
  virtual ~Allocator() = default;
  /// At least `bytes` bytes, aligned to 256; `bytes` may be 0. Throws std::bad_alloc. Safe from any
  /// thread.
  virtual void* allocate(size_t bytes) = 0;
  /// Takes back what allocate(bytes) returned, with the same `bytes`.
  virtual void deallocate(void* memory, size_t bytes) noexcept = 0;
  virtual AllocatorStats stats() const = 0;
  /// Returns cached blocks to the system.
  virtual void release_cached() = 0;
  /// From now on blocks of `stream`, as current_stream() has it, stay cached whatever is short: a
  /// graph that was captured there uses them (device_graph.h). False: no longer.
  virtual void hold(const void* /*stream*/, bool /*on*/) {}
};

/// The size class of a request: the next of 2^k * {1, 1.25, 1.5, 1.75}, at least 256. At most 25 %
/// is lost.
size_t size_class(size_t bytes);

/// The process's caching allocator for host memory.
Allocator& cpu_allocator();

}  // namespace lockstep
