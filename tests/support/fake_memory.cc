#include "lockstep/tests/support/fake_memory.h"

#include <algorithm>

namespace lockstep::testing {

void FakeMemory::begin_use(const void* begin) {
  const std::lock_guard lock(mutex_);
  in_use_.insert(static_cast<const std::byte*>(begin));
}

void FakeMemory::end_use(const void* begin) {
  const std::lock_guard lock(mutex_);
  in_use_.erase(in_use_.find(static_cast<const std::byte*>(begin)));
}

bool FakeMemory::add(int64_t handle, const void* memory, size_t bytes) {
  const auto* begin = static_cast<const std::byte*>(memory);
  const std::lock_guard lock(mutex_);
  const bool fresh = std::none_of(known_.begin(), known_.end(), [&](const auto& other) {
    const auto& [first, length] = other.second;
    return begin < first + length && first < begin + bytes;
  });
  known_[handle] = {begin, bytes};
  return fresh;
}

FakeMemory::Removed FakeMemory::remove(int64_t handle) {
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(handle);
  if (found == known_.end()) return Removed::kUnknown;
  const auto [begin, bytes] = found->second;
  known_.erase(found);
  const auto used = in_use_.lower_bound(begin);
  return used != in_use_.end() && *used < begin + bytes ? Removed::kInUse : Removed::kWell;
}

int FakeMemory::registered() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(known_.size());
}

}  // namespace lockstep::testing
