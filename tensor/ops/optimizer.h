// The optimizers' updates: one pass over memory for each run of parameters.
#pragma once

#include "lockstep/tensor/tensor.h"

namespace lockstep {

struct SgdStep {
  double lr = 0;
  double momentum = 0;
  double weight_decay = 0;
  bool nesterov = false;
};

struct OptimizerKernels {
  /// `velocity` is undefined when step.momentum is 0.
  void (&sgd_step)(Tensor& param, const Tensor& grad, Tensor& velocity, const SgdStep& step);
};

namespace ops {

/// One step of stochastic gradient descent as PyTorch defines it (torch.optim.SGD, dampening 0), in
/// place:
///   d = grad + weight_decay * param;  velocity = momentum * velocity + d;
///   param -= lr * (nesterov ? d + momentum * velocity : velocity)
/// A velocity of zeros makes the first step that of PyTorch, whose buffer starts as the gradient.
/// All of one shape, floating dtype and device; `velocity` may be undefined when momentum is 0, and
/// then d takes its place.
void sgd_step(Tensor& param, const Tensor& grad, Tensor& velocity, const SgdStep& step);

}  // namespace ops
}  // namespace lockstep
