// Softmax. Over the last dimension a warp or a block takes each row, which it reads twice: once for
// the maximum and the sum together. Over another one a thread takes each column, beside its
// neighbours in memory.
#include "lockstep/tensor/ops/softmax.h"

#include "lockstep/tensor/cuda/launch.h"
#include "lockstep/tensor/cuda/rows.h"
#include "lockstep/tensor/cuda/tables.h"

namespace lockstep::LOCKSTEP_GPU {
namespace {

/// What softmax and log_softmax differ in.
struct Plain {
  template <class C>
  static __device__ C result(C x, const MaxSum<C>& all) {
    return std::exp(x - all.max) / all.sum;
  }
  /// The part of an element in the sum that backward needs, and its gradient once that is known.
  template <class C>
  static __device__ C term(C grad, C y) {
    return grad * y;
  }
  template <class C>
  static __device__ C gradient(C grad, C y, C sum) {
    return y * (grad - sum);
  }
};
struct Log {
  template <class C>
  static __device__ C result(C x, const MaxSum<C>& all) {
    return (x - all.max) - std::log(all.sum);
  }
  template <class C>
  static __device__ C term(C grad, C) {
    return grad;
  }
  template <class C>
  static __device__ C gradient(C grad, C y, C sum) {
    return grad - std::exp(y) * sum;
  }
};

template <class Kind, class Team, class T>
__global__ void forward_rows(int64_t rows, int64_t size, const T* x, T* y) {
  using C = compute_t<T>;
  const int64_t row = Team::row();
  if (row >= rows) return;
  MaxSum<C> own = MaxSum<C>::none();
  read_row<Team>(
      size, [&](int64_t, C v) { own.add(v); }, x + row * size);
  const MaxSum<C> all = Team::sum(own);
  map_row<Team>(
      size, false, y + row * size, [&](int64_t, C v) { return Kind::result(v, all); },
      x + row * size);
}

template <class Kind, class Team, class T>
__global__ void backward_rows(int64_t rows, int64_t size, const T* grad_y, const T* y, T* grad_x,
                              bool accumulate) {
  using C = compute_t<T>;
  const int64_t row = Team::row();
  if (row >= rows) return;
  const T* g = grad_y + row * size;
  const T* out = y + row * size;
  C own = C(0);
  read_row<Team>(
      size, [&](int64_t, C grad, C v) { own += Kind::term(grad, v); }, g, out);
  const C sum = Team::sum(own);
  map_row<Team>(
      size, accumulate, grad_x + row * size,
      [&](int64_t, C grad, C v) { return Kind::gradient(grad, v, sum); }, g, out);
}

/// Where column i begins.
__device__ int64_t column_at(const SoftmaxExtents& e, int64_t i) {
  return i / e.inner * e.size * e.inner + i % e.inner;
}

template <class Kind, class T>
struct ForwardColumn {
  SoftmaxExtents e;
  const T* x;
  T* y;
  __device__ void operator()(int64_t column) const {
    using C = compute_t<T>;
    const int64_t first = column_at(e, column);
    MaxSum<C> all = MaxSum<C>::none();
    for (int64_t i = 0; i < e.size; ++i) all.add(static_cast<C>(x[first + i * e.inner]));
    for (int64_t i = 0; i < e.size; ++i) {
      const int64_t at = first + i * e.inner;
      y[at] = T(Kind::result(static_cast<C>(x[at]), all));
    }
  }
};

template <class Kind, class T>
struct BackwardColumn {
  SoftmaxExtents e;
  const T* grad_y;
  const T* y;
  T* grad_x;
  bool accumulate;
  __device__ void operator()(int64_t column) const {
    using C = compute_t<T>;
    const int64_t first = column_at(e, column);
    C sum = C(0);
    for (int64_t i = 0; i < e.size; ++i) {
      const int64_t at = first + i * e.inner;
      sum += Kind::term(static_cast<C>(grad_y[at]), static_cast<C>(y[at]));
    }
    for (int64_t i = 0; i < e.size; ++i) {
      const int64_t at = first + i * e.inner;
      const C v = Kind::gradient(static_cast<C>(grad_y[at]), static_cast<C>(y[at]), sum);
      grad_x[at] = T(accumulate ? static_cast<C>(grad_x[at]) + v : v);
    }
  }
};

template <class Kind>
void forward(const Tensor& x, SoftmaxExtents e, Tensor& y) {
  if (x.numel() == 0) return;
  dispatch_floating(x.dtype(), "softmax", [&](auto zero) {
    using T = decltype(zero);
    const T* from = x.data<T>();
    T* to = y.mutable_data<T>();
    if (e.inner != 1) return for_each(e.outer * e.inner, ForwardColumn<Kind, T>{e, from, to});
    with_team(e.size, [&](auto team) {
      using Team = decltype(team);
      launch(forward_rows<Kind, Team, T>, Team::grid(e.outer), dim3(kBlock), e.outer, e.size, from,
             to);
    });
  });
}

template <class Kind>
void backward(const Tensor& grad_y, const Tensor& y, SoftmaxExtents e, const Dest& grad_x) {
  if (y.numel() == 0) return;
  dispatch_floating(y.dtype(), "softmax_backward", [&](auto zero) {
    using T = decltype(zero);
    Tensor target = grad_x.out;
    const T* grad = grad_y.data<T>();
    const T* out = y.data<T>();
    T* to = target.mutable_data<T>();
    if (e.inner != 1) {
      return for_each(e.outer * e.inner,
                      BackwardColumn<Kind, T>{e, grad, out, to, grad_x.accumulate});
    }
    with_team(e.size, [&](auto team) {
      using Team = decltype(team);
      launch(backward_rows<Kind, Team, T>, Team::grid(e.outer), dim3(kBlock), e.outer, e.size, grad,
             out, to, grad_x.accumulate);
    });
  });
}

}  // namespace

const SoftmaxKernels kSoftmax{.softmax = forward<Plain>,
                              .log_softmax = forward<Log>,
                              .softmax_backward = backward<Plain>,
                              .log_softmax_backward = backward<Log>};

}  // namespace lockstep::LOCKSTEP_GPU
