#include "lockstep/tensor/ops/optimizer.h"

#include "lockstep/tensor/cuda/launch.h"
#include "lockstep/tensor/cuda/tables.h"

namespace lockstep::LOCKSTEP_GPU {
namespace {

template <class T>
struct Sgd {
  using C = compute_t<T>;
  T* param;
  const T* grad;
  T* velocity;  // null: no momentum
  C lr;
  C momentum;
  C weight_decay;
  bool nesterov;
  __device__ void operator()(int64_t i) const {
    const C p = static_cast<C>(param[i]);
    const C d = static_cast<C>(grad[i]) + weight_decay * p;
    C step = d;
    if (velocity != nullptr) {
      const C v = momentum * static_cast<C>(velocity[i]) + d;
      velocity[i] = T(v);
      step = nesterov ? d + momentum * v : v;
    }
    param[i] = T(p - lr * step);
  }
};

void sgd_step(Tensor& param, const Tensor& grad, Tensor& velocity, const SgdStep& step) {
  dispatch_floating(param.dtype(), "sgd_step", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    for_each(param.numel(),
             Sgd<T>{param.mutable_data<T>(), grad.data<T>(),
                    velocity.defined() ? velocity.mutable_data<T>() : nullptr, C(step.lr),
                    C(step.momentum), C(step.weight_decay), step.nesterov});
  });
}

}  // namespace

const OptimizerKernels kOptimizer{.sgd_step = sgd_step};

}  // namespace lockstep::LOCKSTEP_GPU
