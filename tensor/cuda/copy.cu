#include "lockstep/tensor/ops/copy.h"

#include "lockstep/tensor/cuda/strided.h"
#include "lockstep/tensor/cuda/tables.h"

namespace lockstep::LOCKSTEP_GPU {
namespace {

template <class C>
struct Constant {
  C value;
  __device__ C operator()() const { return value; }
};

template <class C>
struct Times {
  C factor;
  __device__ C operator()(C v) const { return factor * v; }
};

void fill(double value, Tensor& out) {
  dispatch_any(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    map(out.numel(), Constant<C>{static_cast<C>(value)}, out.mutable_data<T>(), false);
  });
}

void copy(const Tensor& in, Tensor& out) {
  if (in.dtype() == out.dtype()) {
    return dispatch_bits(in.dtype(), [&](auto zero) {
      using T = decltype(zero);
      map(in.numel(), Unchanged{}, reinterpret_cast<T*>(out.mutable_raw()), false,
          reinterpret_cast<const T*>(in.raw()));
    });
  }
  dispatch_any(in.dtype(), [&](auto from) {
    using From = decltype(from);
    dispatch_any(out.dtype(), [&](auto to) {
      map(in.numel(), Unchanged{}, out.mutable_data<decltype(to)>(), false, in.data<From>());
    });
  });
}

void add_scaled(const Tensor& x, double alpha, Tensor& y) {
  dispatch_floating(x.dtype(), "add_scaled", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    map(x.numel(), Times<C>{static_cast<C>(alpha)}, y.mutable_data<T>(), true, x.data<T>());
  });
}

void scale(double factor, Tensor& x) {
  dispatch_floating(x.dtype(), "scale", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    T* values = x.mutable_data<T>();
    map(x.numel(), Times<C>{static_cast<C>(factor)}, values, false, values);
  });
}

}  // namespace

const CopyKernels kCopy{.fill = fill, .copy = copy, .add_scaled = add_scaled, .scale = scale};

}  // namespace lockstep::LOCKSTEP_GPU
