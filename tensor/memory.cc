#include "lockstep/tensor/memory.h"

#include "lockstep/base/error.h"

#include <atomic>
#include <cstring>
#include <mutex>

namespace lockstep {
namespace {

void zero_host(void* memory, size_t bytes) { std::memset(memory, 0, bytes); }
void copy_host(void* to, const void* from, size_t bytes) { std::memcpy(to, from, bytes); }

CudaSlot slot;
std::mutex slot_mutex;
std::atomic<bool> slot_filled{false};
std::atomic<int> chosen_device{0};
constinit CudaProbe cuda_probe = nullptr;  // set before main, so initialised before any code runs

void probe_cuda() {
  std::lock_guard lock(slot_mutex);
  if (slot_filled) return;
  if (cuda_probe == nullptr) {
    throw UnsupportedError(
        "device cuda: this program was built without CUDA; build it with --config=cuda, or use "
        "--device cpu");
  }
  slot = cuda_probe();
  if (slot.backend == nullptr) {
    throw UnsupportedError(str("device cuda: ", slot.missing, "; use --device cpu"));
  }
  slot_filled.store(true, std::memory_order_release);
}

}  // namespace

const DeviceMemory& device_memory(Device device) {
  static const DeviceMemory host{cpu_allocator(), zero_host, copy_host};
  return device.is_cpu() ? host : *require_cuda().memory;
}

void set_cuda_slot(CudaSlot replacement) {
  std::lock_guard lock(slot_mutex);
  slot = std::move(replacement);
  slot_filled.store(slot.backend != nullptr, std::memory_order_release);
}

void set_cuda_probe(CudaProbe probe) { cuda_probe = probe; }

void choose_cuda_device(int local_rank) {
  check(local_rank >= 0, "choose_cuda_device: wanted a local rank of 0 or more, got ", local_rank);
  std::lock_guard lock(slot_mutex);
  check(!slot_filled || chosen_device == local_rank, "choose_cuda_device: wanted GPU ", local_rank,
        ", but this process uses GPU ", chosen_device.load(),
        " already; choose before the first tensor is made there");
  chosen_device = local_rank;
}

int chosen_cuda_device() { return chosen_device; }

const CudaSlot& require_cuda() {
  if (!slot_filled.load(std::memory_order_acquire)) probe_cuda();
  return slot;
}

}  // namespace lockstep
