// What a communicator of the fake NCCL knows of its callers' memory: what a collective works on,
// and what is registered.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <utility>

namespace lockstep::testing {

/// Safe from any thread.
class FakeMemory {
 public:
  /// A collective on what begins at `begin` was called, and is over.
  void begin_use(const void* begin);
  void end_use(const void* begin);

  /// Whether nothing of the `bytes` bytes was registered before.
  bool add(int64_t handle, const void* begin, size_t bytes);
  enum class Removed { kWell, kInUse, kUnknown };
  Removed remove(int64_t handle);
  /// How many registrations there are.
  int registered() const;

 private:
  mutable std::mutex mutex_;
  std::multiset<const std::byte*> in_use_;
  std::map<int64_t, std::pair<const std::byte*, size_t>> known_;  // by handle
};

}  // namespace lockstep::testing
