#include "lockstep/tensor/ops/reduce.h"

#include "lockstep/tensor/cpu/cpu_backend.h"
#include "lockstep/tensor/cpu/strided.h"
#include "lockstep/tensor/cpu/sum_terms.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>
#include <type_traits>

namespace lockstep {
namespace {

using cpu::kGrain;
using cpu::parallel_for;

/// For a loop whose every iteration touches `work` elements.
int64_t grain_for(int64_t work) {
  return std::max<int64_t>(kGrain / std::max<int64_t>(work, 1), 1);
}

void sum_to(const Tensor& x, double factor, const Dest& y) {
  dispatch_floating(x.dtype(), "sum", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    cpu::sum_terms<T>(x, x, x, y, factor, [](C v, C, C) { return v; });
  });
}

void broadcast_to(const Tensor& x, double factor, const Dest& y) {
  dispatch_floating(x.dtype(), "broadcast_to", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const T* in = x.data<T>();
    Tensor target = y.out;
    T* out = target.mutable_data<T>();
    const C f = static_cast<C>(factor);
    const bool accumulate = y.accumulate;
    const auto loop = cpu::broadcast_loop<2>(target.shape(), {x.shape(), target.shape()});
    cpu::with_strides(loop.inner_stride(0), 1, [&]<int X, int>() {
      cpu::for_each_row(loop, [=](const std::array<int64_t, 2>& at, int64_t count) {
        const T* v = in + at[0];
        T* to = out + at[1];
        for (int64_t i = 0; i < count; ++i) {
          const C value = f * static_cast<C>(v[i * X]);
          to[i] = T(accumulate ? static_cast<C>(to[i]) + value : value);
        }
      });
    });
  });
}

void max(const Tensor& x, Tensor& values, Tensor& indices) {
  const int64_t extent = x.dim(1);
  const int64_t inner = x.dim(2);
  dispatch_floating(x.dtype(), "max", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const T* in = x.data<T>();
    T* best = values.mutable_data<T>();
    int64_t* where = indices.mutable_data<int64_t>();
    parallel_for(x.dim(0), grain_for(extent * inner), [=](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o) {
        const T* from = in + o * extent * inner;
        T* b = best + o * inner;
        int64_t* w = where + o * inner;
        std::copy(from, from + inner, b);
        std::fill(w, w + inner, int64_t{0});
        for (int64_t k = 1; k < extent; ++k) {
          for (int64_t i = 0; i < inner; ++i) {
            const C v = static_cast<C>(from[k * inner + i]);
            const C before = static_cast<C>(b[i]);
            if (v > before || (std::isnan(v) && !std::isnan(before))) {
              b[i] = from[k * inner + i];
              w[i] = k;
            }
          }
        }
      }
    });
  });
}

void max_backward(const Tensor& grad, const Tensor& indices, const Dest& grad_x) {
  Tensor target = grad_x.out;
  const int64_t extent = target.dim(1);
  const int64_t inner = target.dim(2);
  dispatch_floating(grad.dtype(), "max_backward", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const T* g = grad.data<T>();
    const int64_t* where = indices.data<int64_t>();
    T* dx = target.mutable_data<T>();
    parallel_for(target.dim(0), grain_for(extent * inner),
                 [=, add = grad_x.accumulate](int64_t begin, int64_t end) {
                   for (int64_t o = begin; o < end; ++o) {
                     T* to = dx + o * extent * inner;
                     if (!add) std::fill(to, to + extent * inner, T(C(0)));
                     for (int64_t i = 0; i < inner; ++i) {
                       T& at = to[where[o * inner + i] * inner + i];
                       at = T(static_cast<C>(at) + static_cast<C>(g[o * inner + i]));
                     }
                   }
                 });
  });
}

/// Squares are added up in lanes, lanes in blocks, blocks in order: the count alone decides how.
template <class T>
double block_of_squares(const T* x, int64_t count) {
  constexpr int64_t kLanes = 16;
  double lane[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t j = 0; j < kLanes; ++j) {
      const auto v = static_cast<double>(static_cast<compute_t<T>>(x[i + j]));
      lane[j] += v * v;
    }
  }
  for (int64_t j = 0; i < count; ++i, ++j) {
    const auto v = static_cast<double>(static_cast<compute_t<T>>(x[i]));
    lane[j] += v * v;
  }
  return std::accumulate(lane, lane + kLanes, 0.0);
}

void sum_of_squares(const Tensor& x, Tensor& total) {
  constexpr int64_t kBlock = 2 * kGrain;
  const int64_t blocks = (x.numel() + kBlock - 1) / kBlock;
  Tensor partial = Tensor::empty({blocks}, DType::kF64);
  double* sums = partial.mutable_data<double>();
  dispatch_floating(x.dtype(), "sum_of_squares", [&](auto zero) {
    using T = decltype(zero);
    const T* values = x.data<T>();
    parallel_for(blocks, 1, [=, n = x.numel()](int64_t begin, int64_t end) {
      for (int64_t b = begin; b < end; ++b)
        sums[b] = block_of_squares(values + b * kBlock, std::min(kBlock, n - b * kBlock));
    });
  });
  *total.mutable_data<double>() = std::accumulate(sums, sums + blocks, 0.0);
}

/// An integer of a number's width, so that a loop over both becomes one of vectors.
template <class C>
using flag_t = std::conditional_t<sizeof(C) == 8, int64_t, int32_t>;

/// 1 for infinity and NaN: their difference from themselves is no number.
template <class C>
flag_t<C> is_bad(C v) {
  return static_cast<flag_t<C>>(!(v - v == C(0)));
}

void scale_and_check(double factor, Tensor& inout, Tensor& finite) {
  std::atomic<bool> bad = false;
  dispatch_floating(inout.dtype(), "scale_and_check", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    T* x = inout.mutable_data<T>();
    parallel_for(inout.numel(), kGrain,
                 [x, f = static_cast<C>(factor), &bad](int64_t begin, int64_t end) {
                   flag_t<C> found = 0;
                   for (int64_t i = begin; i < end; ++i) {
                     const C v = static_cast<C>(x[i]) * f;
                     found |= is_bad(v);
                     x[i] = T(v);
                   }
                   if (found != 0) bad.store(true, std::memory_order_relaxed);
                 });
  });
  *finite.mutable_data<int32_t>() = bad ? 0 : 1;
}

void all_finite(const Tensor& in, Tensor& finite) {
  std::atomic<bool> bad = false;
  dispatch_floating(in.dtype(), "all_finite", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const T* x = in.data<T>();
    parallel_for(in.numel(), kGrain, [x, &bad](int64_t begin, int64_t end) {
      flag_t<C> found = 0;
      for (int64_t i = begin; i < end; ++i) found |= is_bad(static_cast<C>(x[i]));
      if (found != 0) bad.store(true, std::memory_order_relaxed);
    });
  });
  *finite.mutable_data<int32_t>() = bad ? 0 : 1;
}

}  // namespace

const ReduceKernels kCpuReduce{.sum_to = sum_to,
                               .broadcast_to = broadcast_to,
                               .max = max,
                               .max_backward = max_backward,
                               .sum_of_squares = sum_of_squares,
                               .scale_and_check = scale_and_check,
                               .all_finite = all_finite};

}  // namespace lockstep
