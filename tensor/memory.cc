#include "lockstep/tensor/memory.h"

#include "lockstep/base/error.h"

#include <cstring>

namespace lockstep {
namespace {

void zero_host(void* memory, size_t bytes) { std::memset(memory, 0, bytes); }
void copy_host(void* to, const void* from, size_t bytes) { std::memcpy(to, from, bytes); }

const DeviceMemory* cuda = nullptr;

}  // namespace

const DeviceMemory& device_memory(Device device) {
  if (device.is_cpu()) {
    static const DeviceMemory host{cpu_allocator(), zero_host, copy_host};
    return host;
  }
  if (cuda == nullptr) throw_no_cuda();
  return *cuda;
}

void set_cuda_memory(const DeviceMemory* memory) { cuda = memory; }

void throw_no_cuda() {
  throw UnsupportedError(
      "device cuda: this program has no CUDA backend; build it with --config=cuda and run it on a "
      "machine with an NVIDIA driver, or use --device cpu");
}

}  // namespace lockstep
