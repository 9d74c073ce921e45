#include "lockstep/tensor/backend.h"

#include "lockstep/base/error.h"
#include "lockstep/tensor/cpu/cpu_backend.h"
#include "lockstep/tensor/memory.h"

namespace lockstep {
namespace {

const Backend* cuda = nullptr;

}  // namespace

const Backend& backend(Device device) {
  if (device.is_cpu()) return cpu_backend();
  if (cuda == nullptr) throw_no_cuda();
  return *cuda;
}

const Backend* set_cuda_backend(const Backend* replacement) {
  const Backend* before = cuda;
  cuda = replacement;
  set_cuda_memory(replacement == nullptr ? nullptr : &replacement->memory);
  return before;
}

}  // namespace lockstep
