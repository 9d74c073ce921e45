#include "lockstep/tensor/ops/activation.h"

#include "lockstep/tensor/cuda/launch.h"
#include "lockstep/tensor/cuda/tables.h"

namespace lockstep::LOCKSTEP_GPU {
namespace {

template <class T>
struct Relu {
  const T* x;
  T* y;
  __device__ void operator()(int64_t i) const {
    using C = compute_t<T>;
    y[i] = static_cast<C>(x[i]) < C(0) ? T(C(0)) : x[i];  // NaN compares false and stays
  }
};

template <class T>
struct ReluBackward {
  const T* grad_y;
  const T* y;
  T* grad_x;
  bool accumulate;
  __device__ void operator()(int64_t i) const {
    using C = compute_t<T>;
    const C passed = static_cast<C>(y[i]) > C(0) ? static_cast<C>(grad_y[i]) : C(0);
    grad_x[i] = T(accumulate ? static_cast<C>(grad_x[i]) + passed : passed);
  }
};

void relu(const Tensor& x, Tensor& y) {
  dispatch_floating(x.dtype(), "relu", [&](auto zero) {
    using T = decltype(zero);
    for_each(x.numel(), Relu<T>{x.data<T>(), y.mutable_data<T>()});
  });
}

void relu_backward(const Tensor& grad_y, const Tensor& y, const Dest& grad_x) {
  dispatch_floating(y.dtype(), "relu_backward", [&](auto zero) {
    using T = decltype(zero);
    Tensor target = grad_x.out;
    for_each(y.numel(), ReluBackward<T>{grad_y.data<T>(), y.data<T>(), target.mutable_data<T>(),
                                        grad_x.accumulate});
  });
}

}  // namespace

const ActivationKernels kActivation{.relu = relu, .relu_backward = relu_backward};

}  // namespace lockstep::LOCKSTEP_GPU
