#include "lockstep/tensor/ops/activation.h"

#include "lockstep/tensor/cuda/strided.h"
#include "lockstep/tensor/cuda/tables.h"

namespace lockstep::LOCKSTEP_GPU {
namespace {

struct Relu {
  template <class C>
  __device__ C operator()(C x) const {
    return x < C(0) ? C(0) : x;  // NaN compares false and stays
  }
};

struct ReluBackward {
  template <class C>
  __device__ C operator()(C grad_y, C y) const {
    return y > C(0) ? grad_y : C(0);
  }
};

void relu(const Tensor& x, Tensor& y) {
  dispatch_floating(x.dtype(), "relu", [&](auto zero) {
    using T = decltype(zero);
    map(x.numel(), Relu{}, y.mutable_data<T>(), false, x.data<T>());
  });
}

void relu_backward(const Tensor& grad_y, const Tensor& y, const Dest& grad_x) {
  dispatch_floating(y.dtype(), "relu_backward", [&](auto zero) {
    using T = decltype(zero);
    Tensor target = grad_x.out;
    map(y.numel(), ReluBackward{}, target.mutable_data<T>(), grad_x.accumulate, grad_y.data<T>(),
        y.data<T>());
  });
}

}  // namespace

const ActivationKernels kActivation{.relu = relu, .relu_backward = relu_backward};

}  // namespace lockstep::LOCKSTEP_GPU
