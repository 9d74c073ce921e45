#include "lockstep/tensor/ops/activation.h"

#include "lockstep/tensor/cpu/cpu_backend.h"
#include "lockstep/tensor/cpu/parallel.h"

namespace lockstep {
namespace {

using cpu::kGrain;
using cpu::parallel_for;

void relu(const Tensor& x, Tensor& y) {
  dispatch_floating(x.dtype(), "relu", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const T* in = x.data<T>();
    T* out = y.mutable_data<T>();
    parallel_for(x.numel(), kGrain, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const C v = static_cast<C>(in[i]);
        out[i] = T(v < C(0) ? C(0) : v);  // NaN compares false and stays
      }
    });
  });
}

void relu_backward(const Tensor& grad_y, const Tensor& y, const Dest& grad_x) {
  dispatch_floating(y.dtype(), "relu_backward", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const T* g = grad_y.data<T>();
    const T* out = y.data<T>();
    Tensor target = grad_x.out;
    T* dx = target.mutable_data<T>();
    const bool accumulate = grad_x.accumulate;
    parallel_for(y.numel(), kGrain, [=](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const C passed = static_cast<C>(out[i]) > C(0) ? static_cast<C>(g[i]) : C(0);
        dx[i] = T(accumulate ? static_cast<C>(dx[i]) + passed : passed);
      }
    });
  });
}

}  // namespace

const ActivationKernels kCpuActivation{.relu = relu, .relu_backward = relu_backward};

}  // namespace lockstep
