#include "lockstep/tensor/ops/unary.h"

#include "lockstep/tensor/cuda/strided.h"
#include "lockstep/tensor/cuda/tables.h"

#include <cmath>
#include <numbers>

namespace lockstep::LOCKSTEP_GPU {
namespace {

template <class C>
__device__ C sigmoid_of(C x) {
  return C(1) / (C(1) + std::exp(-x));
}

/// The normal distribution function; erfc does not cancel for negative x, as 1 + erf does.
template <class C>
__device__ C normal_cdf_of(C x) {
  return C(0.5) * std::erfc(-x * C(1 / std::numbers::sqrt2));
}

// Each op: its value at x, and its derivative from what was saved, x or the value.

struct Gelu {
  template <class C>
  static __device__ C value(C x) {
    return x * normal_cdf_of(x);
  }
  template <class C>
  static __device__ C derivative(C x) {
    constexpr C kDensity = C(0.5 * std::numbers::inv_sqrtpi * std::numbers::sqrt2);
    return normal_cdf_of(x) + x * kDensity * std::exp(C(-0.5) * x * x);
  }
};

/// (1 + tanh(u)) / 2 is sigmoid(2 u), which does not cancel for negative u.
struct GeluTanh {
  template <class C>
  static __device__ C half(C x) {
    constexpr C kSlope = C(2 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi);
    return sigmoid_of(kSlope * (x + C(0.044715) * x * x * x));
  }
  template <class C>
  static __device__ C value(C x) {
    return x * half(x);
  }
  template <class C>
  static __device__ C derivative(C x) {
    constexpr C kSlope = C(2 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi);
    const C s = half(x);
    return s + x * s * (C(1) - s) * kSlope * (C(1) + C(3 * 0.044715) * x * x);
  }
};

struct Sigmoid {
  template <class C>
  static __device__ C value(C x) {
    return sigmoid_of(x);
  }
  template <class C>
  static __device__ C derivative(C y) {
    return y * (C(1) - y);
  }
};

struct Tanh {
  template <class C>
  static __device__ C value(C x) {
    return std::tanh(x);
  }
  template <class C>
  static __device__ C derivative(C y) {
    return C(1) - y * y;
  }
};

struct Silu {
  template <class C>
  static __device__ C value(C x) {
    return x * sigmoid_of(x);
  }
  template <class C>
  static __device__ C derivative(C x) {
    const C s = sigmoid_of(x);
    return s * (C(1) + x * (C(1) - s));
  }
};

struct Log {
  template <class C>
  static __device__ C value(C x) {
    return std::log(x);
  }
  template <class C>
  static __device__ C derivative(C x) {
    return C(1) / x;
  }
};

struct Exp {
  template <class C>
  static __device__ C value(C x) {
    return std::exp(x);
  }
  template <class C>
  static __device__ C derivative(C y) {
    return y;
  }
};

struct Sqrt {
  template <class C>
  static __device__ C value(C x) {
    return std::sqrt(x);
  }
  template <class C>
  static __device__ C derivative(C y) {
    return C(0.5) / y;
  }
};

template <class Op>
struct Value {
  template <class C>
  __device__ C operator()(C x) const {
    return Op::value(x);
  }
};

template <class Op>
struct Derivative {
  template <class C>
  __device__ C operator()(C grad, C saved) const {
    return grad * Op::derivative(saved);
  }
};

template <class Fn>
void with_op(UnaryOp op, Fn&& fn) {
  switch (op) {
    case UnaryOp::kGelu:
      return fn(Gelu{});
    case UnaryOp::kGeluTanh:
      return fn(GeluTanh{});
    case UnaryOp::kSigmoid:
      return fn(Sigmoid{});
    case UnaryOp::kTanh:
      return fn(Tanh{});
    case UnaryOp::kSilu:
      return fn(Silu{});
    case UnaryOp::kLog:
      return fn(Log{});
    case UnaryOp::kExp:
      return fn(Exp{});
    case UnaryOp::kSqrt:
      return fn(Sqrt{});
  }
}

void forward(UnaryOp op, const Tensor& x, Tensor& y) {
  dispatch_floating(x.dtype(), "unary", [&](auto zero) {
    using T = decltype(zero);
    with_op(op, [&](auto kind) {
      map(x.numel(), Value<decltype(kind)>{}, y.mutable_data<T>(), false, x.data<T>());
    });
  });
}

void backward(UnaryOp op, const Tensor& grad_y, const Tensor& saved, const Dest& grad_x) {
  dispatch_floating(saved.dtype(), "unary_backward", [&](auto zero) {
    using T = decltype(zero);
    Tensor out = grad_x.out;
    with_op(op, [&](auto kind) {
      map(saved.numel(), Derivative<decltype(kind)>{}, out.mutable_data<T>(), grad_x.accumulate,
          grad_y.data<T>(), saved.data<T>());
    });
  });
}

}  // namespace

const UnaryKernels kUnary{.forward = forward, .backward = backward};

}  // namespace lockstep::LOCKSTEP_GPU
