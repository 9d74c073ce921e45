// Memory that a hook keeps between buckets and that grows to the largest. Kept rather than taken
// from the cache each time: whether backward holds a cached block just then would depend on the
// timing.
#pragma once

#include "lockstep/tensor/tensor.h"

namespace lockstep {

class Scratch {
 public:
  /// `numel` uninitialised elements, until the next call.
  Tensor get(int64_t numel, DType dtype, Device device) {
    if (!memory_.defined() || memory_.numel() < numel || memory_.dtype() != dtype ||
        memory_.device() != device) {
      memory_ = Tensor();  // before the larger one is asked for
      memory_ = Tensor::empty({numel}, dtype, device);
    }
    return memory_.slice(0, numel);
  }

 private:
  Tensor memory_;
};

}  // namespace lockstep
