// Activations as layers, for Sequential.
#pragma once

#include "lockstep/autograd/ops/activation.h"
#include "lockstep/nn/module.h"

namespace lockstep {

class ReLU final : public Layer {
 public:
  Variable forward(const Variable& x) override { return relu(x); }
};

class GELU final : public Layer {
 public:
  explicit GELU(GeluApproximation approximation = GeluApproximation::kNone)
      : approximation_(approximation) {}
  Variable forward(const Variable& x) override { return gelu(x, approximation_); }

 private:
  GeluApproximation approximation_;
};

class Sigmoid final : public Layer {
 public:
  Variable forward(const Variable& x) override { return sigmoid(x); }
};

class Tanh final : public Layer {
 public:
  Variable forward(const Variable& x) override { return tanh(x); }
};

class SiLU final : public Layer {
 public:
  Variable forward(const Variable& x) override { return silu(x); }
};

}  // namespace lockstep
