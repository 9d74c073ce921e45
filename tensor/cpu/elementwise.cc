#include "lockstep/tensor/ops/elementwise.h"

#include "lockstep/tensor/cpu/cpu_backend.h"
#include "lockstep/tensor/cpu/strided.h"
#include "lockstep/tensor/cpu/sum_terms.h"

namespace lockstep {
namespace {

using cpu::kGrain;
using cpu::parallel_for;
using cpu::sum_terms;

template <class T, class Fn>
void broadcast_map(const Tensor& a, const Tensor& b, Tensor& y, Fn fn) {
  using C = compute_t<T>;
  const T* pa = a.data<T>();
  const T* pb = b.data<T>();
  T* py = y.mutable_data<T>();
  const auto loop = cpu::broadcast_loop<3>(y.shape(), {a.shape(), b.shape(), y.shape()});
  cpu::with_strides(loop.inner_stride(0), loop.inner_stride(1), [&]<int A, int B>() {
    cpu::for_each_row(loop, [=](const std::array<int64_t, 3>& at, int64_t count) {
      const T* u = pa + at[0];
      const T* v = pb + at[1];
      T* out = py + at[2];
      for (int64_t i = 0; i < count; ++i)
        out[i] = T(fn(static_cast<C>(u[i * A]), static_cast<C>(v[i * B])));
    });
  });
}

void binary(BinaryOp op, const Tensor& a, const Tensor& b, Tensor& y) {
  dispatch_floating(a.dtype(), "elementwise", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    switch (op) {
      case BinaryOp::kAdd:
        return broadcast_map<T>(a, b, y, [](C u, C v) { return u + v; });
      case BinaryOp::kSub:
        return broadcast_map<T>(a, b, y, [](C u, C v) { return u - v; });
      case BinaryOp::kMul:
        return broadcast_map<T>(a, b, y, [](C u, C v) { return u * v; });
      case BinaryOp::kDiv:
        return broadcast_map<T>(a, b, y, [](C u, C v) { return u / v; });
    }
  });
}

void affine(const Tensor& x, double factor, double offset, Tensor& y) {
  dispatch_floating(x.dtype(), "affine", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const T* in = x.data<T>();
    T* out = y.mutable_data<T>();
    parallel_for(
        x.numel(), kGrain,
        [=, f = static_cast<C>(factor), o = static_cast<C>(offset)](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) out[i] = T(f * static_cast<C>(in[i]) + o);
        });
  });
}

void mul_backward(const Tensor& grad_y, const Tensor& other, const Dest& grad) {
  dispatch_floating(grad_y.dtype(), "mul_backward", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    sum_terms<T>(grad_y, other, grad_y, grad, 1.0, [](C g, C v, C) { return g * v; });
  });
}

void div_backward_a(const Tensor& grad_y, const Tensor& b, const Dest& grad_a) {
  dispatch_floating(grad_y.dtype(), "div_backward_a", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    sum_terms<T>(grad_y, b, grad_y, grad_a, 1.0, [](C g, C v, C) { return g / v; });
  });
}

void div_backward_b(const Tensor& grad_y, const Tensor& a, const Tensor& b, const Dest& grad_b) {
  dispatch_floating(grad_y.dtype(), "div_backward_b", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    // Divided twice: the square of v would overflow or vanish long before the quotient does.
    sum_terms<T>(grad_y, a, b, grad_b, -1.0, [](C g, C u, C v) { return g * (u / v) / v; });
  });
}

}  // namespace

const ElementwiseKernels kCpuElementwise{.binary = binary,
                                         .affine = affine,
                                         .mul_backward = mul_backward,
                                         .div_backward_a = div_backward_a,
                                         .div_backward_b = div_backward_b};

}  // namespace lockstep
