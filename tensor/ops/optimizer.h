// The optimizers' updates: one pass over memory for each run of parameters, and for LAMB, which
// needs a parameter's norms before it can move it, two.
#pragma once

#include "lockstep/tensor/tensor.h"

namespace lockstep {

struct SgdStep {
  double lr = 0;
  double momentum = 0;
  double dampening = 0;
  double weight_decay = 0;
  bool nesterov = false;
};

struct AdamStep {
  double lr = 0;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool decoupled_weight_decay = false;  // LAMB's always is
  int64_t step = 1;  // of these parameters, this one included; for the correction of the bias
};

/// `shadow` is bf16, written beside param while that is in a register, or undefined.
struct OptimizerKernels {
  /// `velocity` is undefined when step.momentum is 0.
  void (&sgd_step)(Tensor& param, const Tensor& grad, Tensor& velocity, const SgdStep& step,
                   Tensor& shadow);
  void (&adam_step)(Tensor& param, const Tensor& grad, Tensor& m, Tensor& v, const AdamStep& step,
                    Tensor& shadow);
  /// Updates m and v; squares (f64 [2]) = the sums of the squares of param and of the direction.
  void (&lamb_moments)(const Tensor& param, const Tensor& grad, Tensor& m, Tensor& v,
                       const AdamStep& step, Tensor& squares);
  void (&lamb_apply)(Tensor& param, const Tensor& m, const Tensor& v, const AdamStep& step,
                     const Tensor& squares, Tensor& shadow);
  void (&lerp)(Tensor& average, const Tensor& value, double weight);
  void (&clip_factor)(const Tensor& squares, double max_norm, Tensor& result);
  void (&scale_by)(const Tensor& factor, Tensor& x);
};

/// By what gradients of the norm `norm` are to be multiplied; 1 also where it is no number.
constexpr double clip_factor(double norm, double max_norm) {
  const double factor = max_norm / (norm + 1e-6);
  return norm - norm == 0 && factor < 1 ? factor : 1;
}

namespace ops {

// `shadow`, where one is given, is bf16 of param's shape and gets the new values of an f32 param,
// rounded, in the same pass over memory: what mixed precision computes with.

/// One step of stochastic gradient descent as PyTorch defines it (torch.optim.SGD), in place:
///   d = grad + weight_decay * param;  velocity = momentum * velocity + (1 - dampening) * d;
///   param -= lr * (nesterov ? d + momentum * velocity : velocity)
/// A velocity of zeros makes the first step that of PyTorch, whose buffer starts as d: there the
/// caller passes a dampening of 0.
/// All of one shape, floating dtype and device; `velocity` may be undefined when momentum is 0, and
/// then d takes its place.
void sgd_step(Tensor& param, const Tensor& grad, Tensor& velocity, const SgdStep& step,
              Tensor shadow = {});

/// One step of Adam (Kingma and Ba, ICLR 2015) as PyTorch defines it, or with decoupled weight
/// decay of AdamW (Loshchilov and Hutter, ICLR 2019), in place. With g = grad + weight_decay *
/// param (Adam) or g = grad, after param *= 1 - lr * weight_decay (AdamW):
///   m = beta1 * m + (1 - beta1) * g;  v = beta2 * v + (1 - beta2) * g^2;
///   param -= lr * m / (1 - beta1^step) / (sqrt(v / (1 - beta2^step)) + eps)
/// All of one shape, floating dtype and device. Zeros stay zeros when eps is above 0.
void adam_step(Tensor& param, const Tensor& grad, Tensor& m, Tensor& v, const AdamStep& step,
               Tensor shadow = {});

/// One step of LAMB (You et al., "Large Batch Optimization for Deep Learning", ICLR 2020, algorithm
/// 2 with phi the identity) on one parameter, in place, m and v as above:
///   r = m / (1 - beta1^step) / (sqrt(v / (1 - beta2^step)) + eps) + weight_decay * param;
///   param -= lr * |param| / |r| * r
/// with L2 norms over all of `param`; the ratio is 1 where one of them is 0. Two passes over
/// memory: r is computed again rather than stored. The norms are added up in f64, with the same
/// bits for any number of threads.
void lamb_step(Tensor& param, const Tensor& grad, Tensor& m, Tensor& v, const AdamStep& step,
               Tensor shadow = {});

/// average += weight * (value - average), in place; a weight of 1 copies. One shape, floating dtype
/// and device; 0 <= weight <= 1.
void lerp(Tensor& average, const Tensor& value, double weight);

/// Of gradients whose squares add up to squares[i] (f64 [n], added in this order): result (f64 [2])
/// = their common norm, and clip_factor() of it. Same device.
void clip_factor(const Tensor& squares, double max_norm, Tensor& result);

/// x *= factor (f64, one element, on x's device), which nobody waits for. Floating.
void scale_by(const Tensor& factor, Tensor& x);

}  // namespace ops
}  // namespace lockstep
