#include "lockstep/tensor/ops/softmax.h"

#include "lockstep/tensor/cpu/cpu_backend.h"
#include "lockstep/tensor/cpu/rows.h"
#include "lockstep/tensor/cpu/store.h"

namespace lockstep {
namespace {

using cpu::exp_of;
using cpu::row_sum;

// Columns handled at once when the dimension is not the last: they lie side by side, so loops over
// them are vectors.
constexpr int64_t kColumns = 64;

/// What softmax and log_softmax differ in.
struct Plain {
  template <class C>
  static C result(C x, C max, C sum) {
    return exp_of(x - max) / sum;
  }
  /// The part of an element in the sum that backward needs, and its gradient once the sum is known.
  template <class C>
  static C term(C grad, C y) {
    return grad * y;
  }
  template <class C>
  static C gradient(C grad, C y, C sum) {
    return y * (grad - sum);
  }
};
struct Log {
  template <class C>
  static C result(C x, C max, C sum) {
    return (x - max) - std::log(sum);
  }
  template <class C>
  static C term(C grad, C) {
    return grad;
  }
  template <class C>
  static C gradient(C grad, C y, C sum) {
    return grad - exp_of(y) * sum;
  }
};

/// Calls fn(offset, count) for groups of at most kColumns neighbouring columns: column c of a group
/// has its elements at offset + c, offset + c + inner, ...
template <class Fn>
void for_columns(SoftmaxExtents e, Fn&& fn) {
  const int64_t groups = (e.inner + kColumns - 1) / kColumns;
  cpu::parallel_for(e.outer * groups, cpu::row_grain(e.size * std::min(e.inner, kColumns)),
                    [&](int64_t begin, int64_t end) {
                      for (int64_t g = begin; g < end; ++g) {
                        const int64_t first = g % groups * kColumns;
                        fn(g / groups * e.size * e.inner + first,
                           std::min(kColumns, e.inner - first));
                      }
                    });
}

template <class Kind, class T>
void forward_rows(const T* x, SoftmaxExtents e, T* y) {
  using C = compute_t<T>;
  cpu::parallel_for(e.outer, cpu::row_grain(e.size), [=](int64_t begin, int64_t end) {
    for (int64_t o = begin; o < end; ++o) {
      const T* in = x + o * e.size;
      T* out = y + o * e.size;
      const C max = cpu::row_max(in, e.size);
      const C sum =
          row_sum<C>(e.size, [=](int64_t i) { return exp_of(static_cast<C>(in[i]) - max); });
#pragma omp simd
      for (int64_t i = 0; i < e.size; ++i)
        cpu::store(out[i], Kind::result(static_cast<C>(in[i]), max, sum));
    }
  });
}

template <class Kind, class T>
void forward_columns(const T* x, SoftmaxExtents e, T* y) {
  using C = compute_t<T>;
  for_columns(e, [=](int64_t offset, int64_t count) {
    C max[kColumns];
    C sum[kColumns] = {};
    std::fill(max, max + kColumns, -std::numeric_limits<C>::infinity());
    for (int64_t i = 0; i < e.size; ++i) {
      const T* in = x + offset + i * e.inner;
      for (int64_t c = 0; c < count; ++c) max[c] = std::max(max[c], static_cast<C>(in[c]));
    }
    for (int64_t i = 0; i < e.size; ++i) {
      const T* in = x + offset + i * e.inner;
      for (int64_t c = 0; c < count; ++c) sum[c] += exp_of(static_cast<C>(in[c]) - max[c]);
    }
    for (int64_t i = 0; i < e.size; ++i) {
      const T* in = x + offset + i * e.inner;
      T* out = y + offset + i * e.inner;
      for (int64_t c = 0; c < count; ++c)
        out[c] = T(Kind::result(static_cast<C>(in[c]), max[c], sum[c]));
    }
  });
}

template <class Kind, class T>
void backward_rows(const T* grad_y, const T* y, SoftmaxExtents e, T* grad_x, bool accumulate) {
  using C = compute_t<T>;
  cpu::parallel_for(e.outer, cpu::row_grain(e.size), [=](int64_t begin, int64_t end) {
    for (int64_t o = begin; o < end; ++o) {
      const T* g = grad_y + o * e.size;
      const T* out = y + o * e.size;
      T* dx = grad_x + o * e.size;
      const C sum = row_sum<C>(e.size, [=](int64_t i) {
        return Kind::term(static_cast<C>(g[i]), static_cast<C>(out[i]));
      });
#pragma omp simd
      for (int64_t i = 0; i < e.size; ++i) {
        const C value = Kind::gradient(static_cast<C>(g[i]), static_cast<C>(out[i]), sum);
        cpu::store(dx[i], accumulate ? static_cast<C>(dx[i]) + value : value);
      }
    }
  });
}

template <class Kind, class T>
void backward_columns(const T* grad_y, const T* y, SoftmaxExtents e, T* grad_x, bool accumulate) {
  using C = compute_t<T>;
  for_columns(e, [=](int64_t offset, int64_t count) {
    C sum[kColumns] = {};
    for (int64_t i = 0; i < e.size; ++i) {
      const int64_t at = offset + i * e.inner;
      for (int64_t c = 0; c < count; ++c) {
        sum[c] += Kind::term(static_cast<C>(grad_y[at + c]), static_cast<C>(y[at + c]));
      }
    }
    for (int64_t i = 0; i < e.size; ++i) {
      const int64_t at = offset + i * e.inner;
      for (int64_t c = 0; c < count; ++c) {
        const C value =
            Kind::gradient(static_cast<C>(grad_y[at + c]), static_cast<C>(y[at + c]), sum[c]);
        grad_x[at + c] = T(accumulate ? static_cast<C>(grad_x[at + c]) + value : value);
      }
    }
  });
}

template <class Kind>
void forward(const Tensor& x, SoftmaxExtents e, Tensor& y) {
  dispatch_floating(x.dtype(), "softmax", [&](auto zero) {
    using T = decltype(zero);
    const auto run = e.inner == 1 ? forward_rows<Kind, T> : forward_columns<Kind, T>;
    run(x.data<T>(), e, y.mutable_data<T>());
  });
}

template <class Kind>
void backward(const Tensor& grad_y, const Tensor& y, SoftmaxExtents e, const Dest& grad_x) {
  dispatch_floating(y.dtype(), "softmax_backward", [&](auto zero) {
    using T = decltype(zero);
    Tensor out = grad_x.out;
    const auto run = e.inner == 1 ? backward_rows<Kind, T> : backward_columns<Kind, T>;
    run(grad_y.data<T>(), y.data<T>(), e, out.mutable_data<T>(), grad_x.accumulate);
  });
}

}  // namespace

const SoftmaxKernels kCpuSoftmax{
    .softmax = forward<Plain>,
    .log_softmax = forward<Log>,
    .softmax_backward = backward<Plain>,
    .log_softmax_backward = backward<Log>,
};

}  // namespace lockstep
