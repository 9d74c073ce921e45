// Activations as layers, for Sequential.
#pragma once

#include "lockstep/autograd/ops/activation.h"
#include "lockstep/nn/module.h"

namespace lockstep {

class ReLU final : public Layer {
 public:
  Variable forward(const Variable& x) override { return relu(x); }
};

}  // namespace lockstep
