#include "lockstep/tensor/ops/unary.h"

#include "lockstep/tensor/cpu/cpu_backend.h"
#include "lockstep/tensor/cpu/store.h"
#include "lockstep/tensor/cpu/vector_math.h"

#include <numbers>

namespace lockstep {
namespace {

using cpu::exp_of;
using cpu::sigmoid_of;

// Each op: its value at x, and its derivative from what was saved, x or the value.

struct Gelu {
  template <class C>
  static C value(C x) {
    return x * cpu::normal_cdf_of(x);
  }
  template <class C>
  static C derivative(C x) {
    constexpr C kDensity = C(0.5 * std::numbers::inv_sqrtpi * std::numbers::sqrt2);
    return cpu::normal_cdf_of(x) + x * kDensity * exp_of(C(-0.5) * x * x);
  }
};

/// (1 + tanh(u)) / 2 is sigmoid(2 u), which does not cancel for negative u.
struct GeluTanh {
  template <class C>
  static constexpr C kSlope = C(std::numbers::sqrt2* std::numbers::inv_sqrtpi);
  template <class C>
  static constexpr C kCubic = C(0.044715);

  template <class C>
  static C value(C x) {
    return x * sigmoid_of(C(2) * kSlope<C> * (x + kCubic<C> * x * x * x));
  }
  template <class C>
  static C derivative(C x) {
    const C s = sigmoid_of(C(2) * kSlope<C> * (x + kCubic<C> * x * x * x));
    const C inner = C(2) * kSlope<C> * (C(1) + C(3) * kCubic<C> * x * x);
    return s + x * s * (C(1) - s) * inner;
  }
};

struct Sigmoid {
  template <class C>
  static C value(C x) {
    return sigmoid_of(x);
  }
  template <class C>
  static C derivative(C y) {
    return y * (C(1) - y);
  }
};

struct Tanh {
  template <class C>
  static C value(C x) {
    return cpu::tanh_of(x);
  }
  template <class C>
  static C derivative(C y) {
    return C(1) - y * y;
  }
};

struct Silu {
  template <class C>
  static C value(C x) {
    return x * sigmoid_of(x);
  }
  template <class C>
  static C derivative(C x) {
    const C s = sigmoid_of(x);
    return s * (C(1) + x * (C(1) - s));
  }
};

struct Log {
  template <class C>
  static C value(C x) {
    return std::log(x);
  }
  template <class C>
  static C derivative(C x) {
    return C(1) / x;
  }
};

struct Exp {
  template <class C>
  static C value(C x) {
    return exp_of(x);
  }
  template <class C>
  static C derivative(C y) {
    return y;
  }
};

struct Sqrt {
  template <class C>
  static C value(C x) {
    return std::sqrt(x);
  }
  template <class C>
  static C derivative(C y) {
    return C(0.5) / y;
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

constexpr int64_t kUnaryGrain = cpu::kGrain / 4;  // each is as heavy as a few exponentials

template <class Op, class T>
void map(const T* x, int64_t count, T* y) {
  cpu::parallel_for(count, kUnaryGrain, [=](int64_t begin, int64_t end) {
    const T* __restrict in = x;
    T* __restrict out = y;
#pragma omp simd
    for (int64_t i = begin; i < end; ++i)
      cpu::store(out[i], Op::value(static_cast<compute_t<T>>(in[i])));
  });
}

template <class Op, bool kAccumulate, class T>
void map_backward(const T* grad_y, const T* saved, int64_t count, T* grad_x) {
  using C = compute_t<T>;
  cpu::parallel_for(count, kUnaryGrain, [=](int64_t begin, int64_t end) {
#pragma omp simd
    for (int64_t i = begin; i < end; ++i) {
      C value = static_cast<C>(grad_y[i]) * Op::derivative(static_cast<C>(saved[i]));
      if constexpr (kAccumulate) value += static_cast<C>(grad_x[i]);
      cpu::store(grad_x[i], value);
    }
  });
}

void forward(UnaryOp op, const Tensor& x, Tensor& y) {
  dispatch_floating(x.dtype(), "unary", [&](auto zero) {
    using T = decltype(zero);
    with_op(op,
            [&](auto kind) { map<decltype(kind)>(x.data<T>(), x.numel(), y.mutable_data<T>()); });
  });
}

void backward(UnaryOp op, const Tensor& grad_y, const Tensor& saved, const Dest& grad_x) {
  dispatch_floating(saved.dtype(), "unary_backward", [&](auto zero) {
    using T = decltype(zero);
    Tensor out = grad_x.out;
    with_op(op, [&](auto kind) {
      using Op = decltype(kind);
      const auto run = grad_x.accumulate ? map_backward<Op, true, T> : map_backward<Op, false, T>;
      run(grad_y.data<T>(), saved.data<T>(), saved.numel(), out.mutable_data<T>());
    });
  });
}

}  // namespace

const UnaryKernels kCpuUnary{.forward = forward, .backward = backward};

}  // namespace lockstep
