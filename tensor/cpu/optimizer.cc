#include "lockstep/tensor/ops/optimizer.h"

#include "lockstep/tensor/cpu/cpu_backend.h"
#include "lockstep/tensor/cpu/parallel.h"

namespace lockstep {
namespace {

using cpu::kGrain;
using cpu::parallel_for;

enum class Form { kPlain, kMomentum, kNesterov };

/// The form is a template argument so that the loop has no branch and each is one vectorised pass.
template <Form form, class T>
void update(T* __restrict p, const T* __restrict g, T* __restrict v, int64_t n,
            const SgdStep& step) {
  using C = compute_t<T>;
  const C lr = static_cast<C>(step.lr);
  const C mu = static_cast<C>(step.momentum);
  const C decay = static_cast<C>(step.weight_decay);
  parallel_for(n, kGrain, [=](int64_t begin, int64_t end) {
#pragma omp simd
    for (int64_t i = begin; i < end; ++i) {
      const C x = static_cast<C>(p[i]);
      C d = static_cast<C>(g[i]) + decay * x;
      if constexpr (form != Form::kPlain) {
        const C velocity = mu * static_cast<C>(v[i]) + d;
        v[i] = T(velocity);
        d = form == Form::kNesterov ? d + mu * velocity : velocity;
      }
      p[i] = T(x - lr * d);
    }
  });
}

void sgd_step(Tensor& param, const Tensor& grad, Tensor& velocity, const SgdStep& step) {
  dispatch_floating(param.dtype(), "sgd_step", [&](auto zero) {
    using T = decltype(zero);
    T* p = param.mutable_data<T>();
    const T* g = grad.data<T>();
    if (step.momentum == 0) {
      update<Form::kPlain, T>(p, g, nullptr, param.numel(), step);
    } else if (step.nesterov) {
      update<Form::kNesterov, T>(p, g, velocity.mutable_data<T>(), param.numel(), step);
    } else {
      update<Form::kMomentum, T>(p, g, velocity.mutable_data<T>(), param.numel(), step);
    }
  });
}

}  // namespace

const OptimizerKernels kCpuOptimizer{.sgd_step = sgd_step};

}  // namespace lockstep
