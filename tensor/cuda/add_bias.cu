#include "lockstep/tensor/cuda/add_bias.h"

#include "lockstep/tensor/cuda/launch.h"

namespace lockstep::LOCKSTEP_GPU {
namespace {

template <class T, class B>
struct AddBias {
  const B* bias;
  int64_t n;
  T* y;
  __device__ void operator()(int64_t i) const {
    using C = compute_t<T>;
    y[i] = T(static_cast<C>(y[i]) + static_cast<C>(static_cast<compute_t<B>>(bias[i % n])));
  }
};

}  // namespace

void add_bias(const Tensor& bias, Tensor& y) {
  dispatch_floating(y.dtype(), "add_bias", [&](auto zero) {
    using T = decltype(zero);
    T* to = y.mutable_data<T>();
    if (bias.dtype() == y.dtype()) {
      for_each(y.numel(), AddBias<T, T>{bias.data<T>(), bias.numel(), to});
    } else {
      for_each(y.numel(), AddBias<T, float>{bias.data<float>(), bias.numel(), to});
    }
  });
}

}  // namespace lockstep::LOCKSTEP_GPU
