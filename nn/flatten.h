// Flatten as a layer.
#pragma once

#include "lockstep/autograd/ops/layout.h"
#include "lockstep/nn/module.h"

namespace lockstep {

/// [N, everything else] from [N, ...]: the same memory.
class Flatten final : public Layer {
 public:
  Variable forward(const Variable& x) override { return flatten(x, 1); }
};

}  // namespace lockstep
