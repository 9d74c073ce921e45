#include "lockstep/tests/support/sim_memory.h"

#include "lockstep/tests/support/sim_device.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace lockstep::testing {
namespace {

constexpr int kPoison = 0xFF;  // NaN in every floating dtype, -1 in the others

// Set in the simulated device's addresses. No address of an x86-64 or AArch64 process has it.
constexpr uintptr_t kOnDevice = uintptr_t{1} << 61;

void* device_address(void* host) {
  return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(host) | kOnDevice);
}

class SimAllocator final : public Allocator {
 public:
  void* allocate(size_t bytes) override {
    const size_t rounded = size_class(bytes);
    const std::shared_ptr<SimQueue> home = SimDevice::current().queue();
    std::lock_guard lock(mutex_);
    std::vector<void*>& blocks = free_[{home.get(), rounded}];
    void* memory = nullptr;
    if (!blocks.empty()) {
      memory = blocks.back();
      blocks.pop_back();
      ++stats_.hits;
    } else {
      memory = std::aligned_alloc(256, rounded);
      if (memory == nullptr) throw std::bad_alloc();
      std::memset(memory, kPoison, rounded);
      homes_[memory] = home;
      ++stats_.misses;
    }
    stats_.bytes_in_use += rounded;
    return device_address(memory);
  }

  void deallocate(void* address, size_t bytes) noexcept override {
    const size_t rounded = size_class(bytes);
    void* const memory = host_address(address);
    std::lock_guard lock(mutex_);
    stats_.bytes_in_use -= rounded;
    const std::shared_ptr<SimQueue>& home = homes_.at(memory);
    if (home->push({[=] { std::memset(memory, kPoison, rounded); }})) {
      free_[{home.get(), rounded}].push_back(memory);
      stats_.bytes_cached += rounded;
    } else {  // that stream has ended, and with it everything that used the block in its order
      homes_.erase(memory);
      std::free(memory);
    }
  }

  AllocatorStats stats() const override {
    std::lock_guard lock(mutex_);
    return stats_;
  }

  void release_cached() override {
    std::lock_guard lock(mutex_);
    for (auto& [key, blocks] : free_) {
      for (void* memory : blocks) {
        homes_.erase(memory);
        std::free(memory);
      }
    }
    free_.clear();
    stats_.bytes_cached = 0;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::pair<SimQueue*, size_t>, std::vector<void*>> free_;
  std::map<void*, std::shared_ptr<SimQueue>> homes_;
  AllocatorStats stats_;
};

void zero(void* memory, size_t bytes) {
  SimDevice::current().enqueue([=] { std::memset(host_address(memory), 0, bytes); });
}

void copy(void* to, const void* from, size_t bytes) {
  SimStream& stream = SimDevice::current();
  stream.enqueue([=] { std::memcpy(host_address(to), host_address(from), bytes); });
  stream.synchronize();
}

}  // namespace

std::byte* host_address(const void* address) {
  return reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(address) & ~kOnDevice);
}

const DeviceMemory& sim_memory() {
  static auto* allocator = new SimAllocator;
  static const DeviceMemory memory{*allocator, zero, copy};
  return memory;
}

}  // namespace lockstep::testing
