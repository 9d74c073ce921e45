#include "lockstep/tensor/backend.h"

#include "lockstep/tensor/cpu/cpu_backend.h"

#include <utility>

namespace lockstep {

const Backend& backend(Device device) {
  return device.is_cpu() ? cpu_backend() : *require_cuda().backend;
}

const Backend* set_cuda_backend(const Backend* replacement) {
  static const Backend* installed = nullptr;
  set_cuda_slot(replacement == nullptr
                    ? CudaSlot{}
                    : CudaSlot{replacement, &replacement->memory, &replacement->streams, ""});
  return std::exchange(installed, replacement);
}

}  // namespace lockstep
