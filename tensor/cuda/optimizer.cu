#include "lockstep/tensor/ops/optimizer.h"

#include "lockstep/tensor/cuda/launch.h"
#include "lockstep/tensor/cuda/missing.h"
#include "lockstep/tensor/cuda/tables.h"

#include <cmath>

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
  C fresh;  // 1 - dampening
  C weight_decay;
  bool nesterov;
  __device__ void operator()(int64_t i) const {
    const C p = static_cast<C>(param[i]);
    const C d = static_cast<C>(grad[i]) + weight_decay * p;
    C step = d;
    if (velocity != nullptr) {
      const C v = momentum * static_cast<C>(velocity[i]) + fresh * d;
      velocity[i] = T(v);
      step = nesterov ? d + momentum * v : v;
    }
    param[i] = T(p - lr * step);
  }
};

void refuse(const Tensor& shadow) {
  if (shadow.defined()) throw UnsupportedError("optimizer: bf16 shadows are written on CPUs only");
}

void sgd_step(Tensor& param, const Tensor& grad, Tensor& velocity, const SgdStep& step,
              Tensor& shadow) {
  refuse(shadow);
  dispatch_floating(param.dtype(), "sgd_step", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    for_each(param.numel(),
             Sgd<T>{param.mutable_data<T>(), grad.data<T>(),
                    velocity.defined() ? velocity.mutable_data<T>() : nullptr, C(step.lr),
                    C(step.momentum), C(1 - step.dampening), C(step.weight_decay), step.nesterov});
  });
}

template <class T>
struct Adam {
  using C = compute_t<T>;
  T* param;
  const T* grad;
  T* m;
  T* v;
  C lr, fresh1, beta2, fresh2, eps;
  C scale1, scale2;  // correct the bias of m and of sqrt(v)
  C l2, keep;        // coupled decay, and what decoupled decay leaves
  __device__ void operator()(int64_t i) const {
    const C p = static_cast<C>(param[i]);
    const C g = static_cast<C>(grad[i]) + l2 * p;
    m[i] = T(static_cast<C>(m[i]) + fresh1 * (g - static_cast<C>(m[i])));
    v[i] = T(beta2 * static_cast<C>(v[i]) + fresh2 * g * g);
    const C direction =
        scale1 * static_cast<C>(m[i]) / (std::sqrt(static_cast<C>(v[i])) * scale2 + eps);
    param[i] = T(keep * p - lr * direction);
  }
};

void adam_step(Tensor& param, const Tensor& grad, Tensor& m, Tensor& v, const AdamStep& step,
               Tensor& shadow) {
  refuse(shadow);
  dispatch_floating(param.dtype(), "adam_step", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const auto count = static_cast<double>(step.step);
    const bool decoupled = step.decoupled_weight_decay;
    for_each(param.numel(), Adam<T>{.param = param.mutable_data<T>(),
                                    .grad = grad.data<T>(),
                                    .m = m.mutable_data<T>(),
                                    .v = v.mutable_data<T>(),
                                    .lr = C(step.lr),
                                    .fresh1 = C(1 - step.beta1),
                                    .beta2 = C(step.beta2),
                                    .fresh2 = C(1 - step.beta2),
                                    .eps = C(step.eps),
                                    .scale1 = C(1 / (1 - std::pow(step.beta1, count))),
                                    .scale2 = C(1 / std::sqrt(1 - std::pow(step.beta2, count))),
                                    .l2 = C(decoupled ? 0 : step.weight_decay),
                                    .keep = C(decoupled ? 1 - step.lr * step.weight_decay : 1)});
  });
}

template <class T>
struct Lerp {
  using C = compute_t<T>;
  T* average;
  const T* value;
  C factor;
  bool near_value;  // from that end: weights of 0 and of 1 are exact
  __device__ void operator()(int64_t i) const {
    const C from = static_cast<C>(average[i]), to = static_cast<C>(value[i]);
    average[i] = T((near_value ? to : from) + factor * (to - from));
  }
};

void lerp(Tensor& average, const Tensor& value, double weight) {
  dispatch_floating(average.dtype(), "lerp", [&](auto zero) {
    using T = decltype(zero);
    const bool near_value = weight >= 0.5;
    for_each(average.numel(), Lerp<T>{average.mutable_data<T>(), value.data<T>(),
                                      compute_t<T>(near_value ? weight - 1 : weight), near_value});
  });
}

}  // namespace

const OptimizerKernels kOptimizer{.sgd_step = sgd_step,
                                  .adam_step = adam_step,
                                  .lamb_moments = missing_kernel<"lamb_step">,
                                  .lamb_apply = missing_kernel<"lamb_step">,
                                  .lerp = lerp};

}  // namespace lockstep::LOCKSTEP_GPU
