// Storage: the owned memory behind tensors. Private to tensor/tensor.cc.
#pragma once

#include "lockstep/tensor/allocator.h"
#include "lockstep/tensor/device.h"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace lockstep {

class Storage {
 public:
  Storage(size_t bytes, Device device, Allocator& allocator)
      : data_(static_cast<std::byte*>(allocator.allocate(bytes))),
        bytes_(bytes),
        device_(device),
        allocator_(&allocator) {}
  /// Memory of somebody else, which is not freed.
  Storage(void* memory, size_t bytes, Device device)
      : data_(static_cast<std::byte*>(memory)),
        bytes_(bytes),
        device_(device),
        allocator_(nullptr) {}
  ~Storage() {
    if (allocator_ != nullptr) allocator_->deallocate(data_, bytes_);
  }
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  std::byte* data() const { return data_; }
  Device device() const { return device_; }
  uint64_t version() const { return version_.load(std::memory_order_relaxed); }
  void changed() { version_.fetch_add(1, std::memory_order_relaxed); }
  /// Why the memory is not to be used any more; null: it is.
  const char* retired() const { return retired_.load(std::memory_order_relaxed); }
  void retire(const char* why) { retired_.store(why, std::memory_order_relaxed); }

 private:
  std::byte* data_;
  size_t bytes_;
  Device device_;
  Allocator* allocator_;
  // Atomic because a loader's thread may write one slice while another thread writes the next.
  std::atomic<uint64_t> version_{0};
  std::atomic<const char*> retired_{nullptr};
};

}  // namespace lockstep
