#include "lockstep/tensor/ops/elementwise.h"

#include "lockstep/tensor/cuda/strided.h"
#include "lockstep/tensor/cuda/sum_terms.h"
#include "lockstep/tensor/cuda/tables.h"

namespace lockstep::LOCKSTEP_GPU {
namespace {

struct Arithmetic {
  BinaryOp op;  // the same in all threads, so the choice costs next to nothing beside memory
  template <class C>
  __device__ C operator()(C u, C v) const {
    switch (op) {
      case BinaryOp::kAdd:
        return u + v;
      case BinaryOp::kSub:
        return u - v;
      case BinaryOp::kMul:
        return u * v;
      case BinaryOp::kDiv:
        return u / v;
    }
    return u;
  }
};

template <class C>
struct Affine {
  C factor;
  C offset;
  __device__ C operator()(C v) const { return factor * v + offset; }
};

struct Product {
  template <class C>
  __device__ C operator()(C g, C v, C) const {
    return g * v;
  }
};

struct Quotient {
  template <class C>
  __device__ C operator()(C g, C v, C) const {
    return g / v;
  }
};

/// Divided twice: the square of v would overflow or vanish long before the quotient does.
struct QuotientOfSquare {
  template <class C>
  __device__ C operator()(C g, C u, C v) const {
    return g * (u / v) / v;
  }
};

void binary(BinaryOp op, const Tensor& a, const Tensor& b, Tensor& y) {
  const auto loop = broadcast_loop<3>(y.shape(), {y.shape(), a.shape(), b.shape()});
  dispatch_floating(a.dtype(), "elementwise", [&](auto zero) {
    using T = decltype(zero);
    map_strided(loop, Arithmetic{op}, y.mutable_data<T>(), false, a.data<T>(), b.data<T>());
  });
}

void affine(const Tensor& x, double factor, double offset, Tensor& y) {
  dispatch_floating(x.dtype(), "affine", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    map(x.numel(), Affine<C>{static_cast<C>(factor), static_cast<C>(offset)}, y.mutable_data<T>(),
        false, x.data<T>());
  });
}

void mul_backward(const Tensor& grad_y, const Tensor& other, const Dest& grad) {
  dispatch_floating(grad_y.dtype(), "mul_backward", [&](auto zero) {
    sum_terms<decltype(zero)>(grad_y, other, grad_y, grad, 1.0, Product{});
  });
}

void div_backward_a(const Tensor& grad_y, const Tensor& b, const Dest& grad_a) {
  dispatch_floating(grad_y.dtype(), "div_backward_a", [&](auto zero) {
    sum_terms<decltype(zero)>(grad_y, b, grad_y, grad_a, 1.0, Quotient{});
  });
}

void div_backward_b(const Tensor& grad_y, const Tensor& a, const Tensor& b, const Dest& grad_b) {
  dispatch_floating(grad_y.dtype(), "div_backward_b", [&](auto zero) {
    sum_terms<decltype(zero)>(grad_y, a, b, grad_b, -1.0, QuotientOfSquare{});
  });
}

}  // namespace

const ElementwiseKernels kElementwise{.binary = binary,
                                      .affine = affine,
                                      .mul_backward = mul_backward,
                                      .div_backward_a = div_backward_a,
                                      .div_backward_b = div_backward_b};

}  // namespace lockstep::LOCKSTEP_GPU
