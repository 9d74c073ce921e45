#include "lockstep/tensor/ops/copy.h"

#include "lockstep/tensor/cuda/launch.h"
#include "lockstep/tensor/cuda/tables.h"

namespace lockstep::LOCKSTEP_GPU {
namespace {

template <class T>
struct Fill {
  T value;
  T* out;
  __device__ void operator()(int64_t i) const { out[i] = value; }
};

template <class From, class To>
struct Convert {
  const From* in;
  To* out;
  __device__ void operator()(int64_t i) const {
    out[i] = static_cast<To>(static_cast<compute_t<To>>(static_cast<compute_t<From>>(in[i])));
  }
};

template <class T>
struct AddScaled {
  const T* x;
  compute_t<T> alpha;
  T* y;
  __device__ void operator()(int64_t i) const {
    using C = compute_t<T>;
    y[i] = T(static_cast<C>(y[i]) + alpha * static_cast<C>(x[i]));
  }
};

template <class T>
struct Scale {
  compute_t<T> factor;
  T* x;
  __device__ void operator()(int64_t i) const {
    x[i] = T(static_cast<compute_t<T>>(x[i]) * factor);
  }
};

void fill(double value, Tensor& out) {
  dispatch_any(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    for_each(out.numel(),
             Fill<T>{static_cast<T>(static_cast<compute_t<T>>(value)), out.mutable_data<T>()});
  });
}

void copy(const Tensor& in, Tensor& out) {
  dispatch_any(in.dtype(), [&](auto from) {
    using From = decltype(from);
    dispatch_any(out.dtype(), [&](auto to) {
      using To = decltype(to);
      for_each(in.numel(), Convert<From, To>{in.data<From>(), out.mutable_data<To>()});
    });
  });
}

void add_scaled(const Tensor& x, double alpha, Tensor& y) {
  dispatch_floating(x.dtype(), "add_scaled", [&](auto zero) {
    using T = decltype(zero);
    for_each(x.numel(),
             AddScaled<T>{x.data<T>(), static_cast<compute_t<T>>(alpha), y.mutable_data<T>()});
  });
}

void scale(double factor, Tensor& x) {
  dispatch_floating(x.dtype(), "scale", [&](auto zero) {
    using T = decltype(zero);
    for_each(x.numel(), Scale<T>{static_cast<compute_t<T>>(factor), x.mutable_data<T>()});
  });
}

}  // namespace

const CopyKernels kCopy{.fill = fill, .copy = copy, .add_scaled = add_scaled, .scale = scale};

}  // namespace lockstep::LOCKSTEP_GPU
