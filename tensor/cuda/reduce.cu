#include "lockstep/tensor/ops/reduce.h"

#include "lockstep/tensor/cuda/fold.h"
#include "lockstep/tensor/cuda/sum_terms.h"
#include "lockstep/tensor/cuda/tables.h"

namespace lockstep::LOCKSTEP_GPU {
namespace {

struct First {
  template <class C>
  __device__ C operator()(C v, C, C) const {
    return v;
  }
};

template <class C>
struct Scaled {
  C factor;
  __device__ C operator()(C v) const { return factor * v; }
};

void sum_to(const Tensor& x, double factor, const Dest& y) {
  dispatch_floating(x.dtype(), "sum",
                    [&](auto zero) { sum_terms<decltype(zero)>(x, x, x, y, factor, First{}); });
}

void broadcast_to(const Tensor& x, double factor, const Dest& y) {
  Tensor target = y.out;
  const auto loop = broadcast_loop<2>(target.shape(), {target.shape(), x.shape()});
  dispatch_floating(x.dtype(), "broadcast_to", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    map_strided(loop, Scaled<C>{static_cast<C>(factor)}, target.mutable_data<T>(), y.accumulate,
                x.data<T>());
  });
}

/// The largest value and the first place of it; a NaN is larger than any number.
template <class C>
struct Largest {
  C value;
  int64_t index;  // below 0: none yet
  static __device__ Largest none() { return {C(0), -1}; }
  __device__ void merge(const Largest& other) {
    if (other.index < 0 || (index >= 0 && !loses_to(other))) return;
    *this = other;
  }
  __device__ bool loses_to(const Largest& other) const {
    const bool nan = value != value, other_nan = other.value != other.value;
    if (nan || other_nan) return nan == other_nan ? other.index < index : other_nan;
    return other.value > value || (other.value == value && other.index < index);
  }
};

template <class T>
struct FindMax {
  using Value = Largest<compute_t<T>>;
  const T* x;
  int64_t extent, inner;
  T* values;
  int64_t* indices;
  __device__ const T& at(int64_t output, int64_t index) const {
    const int64_t outer = divide(output, inner);
    return x[(outer * extent + index) * inner + (output - outer * inner)];
  }
  __device__ Value lane(int64_t output, int64_t first, int64_t step, int64_t end) const {
    Value best = Value::none();
    for (int64_t k = first; k < end; k += step)
      best.merge({static_cast<compute_t<T>>(at(output, k)), k});
    return best;
  }
  __device__ void finish(int64_t output, const Value& best) const {
    values[output] = at(output, best.index);
    indices[output] = best.index;
  }
};

void max(const Tensor& x, Tensor& values, Tensor& indices) {
  dispatch_floating(x.dtype(), "max", [&](auto zero) {
    using T = decltype(zero);
    const int64_t inner = x.dim(2);
    reduce(x.dim(0) * inner, x.dim(1), inner == 1 ? Neighbours::kTerms : Neighbours::kOutputs,
           FindMax<T>{x.data<T>(), x.dim(1), inner, values.mutable_data<T>(),
                      indices.mutable_data<int64_t>()},
           x.device());
  });
}

template <class T>
struct MaxBackward {
  const T* grad;
  const int64_t* indices;
  int64_t extent, inner;
  T* grad_x;
  bool accumulate;
  __device__ void operator()(int64_t i) const {
    using C = compute_t<T>;
    const int64_t row = divide(i, inner);
    const int64_t outer = divide(row, extent);
    const int64_t output = outer * inner + (i - row * inner);
    const C before = accumulate ? static_cast<C>(grad_x[i]) : C(0);
    const C more = indices[output] == row - outer * extent ? static_cast<C>(grad[output]) : C(0);
    grad_x[i] = T(before + more);
  }
};

void max_backward(const Tensor& grad, const Tensor& indices, const Dest& grad_x) {
  dispatch_floating(grad.dtype(), "max_backward", [&](auto zero) {
    using T = decltype(zero);
    Tensor target = grad_x.out;
    for_each(target.numel(),
             MaxBackward<T>{grad.data<T>(), indices.data<int64_t>(), target.dim(1), target.dim(2),
                            target.mutable_data<T>(), grad_x.accumulate});
  });
}

template <class T>
struct Squares {
  using Value = Sum;
  const T* x;
  double* total;
  template <int N>
  __device__ void run(int64_t i, Sum& sum) const {
    const Pack<T, N> values = load<N>(x + i);
    for (int k = 0; k < N; ++k) {
      const auto v = static_cast<double>(static_cast<compute_t<T>>(values[k]));
      sum.total += v * v;
    }
  }
  __device__ void finish(const Sum& sum) const { *total = sum.total; }
};

void sum_of_squares(const Tensor& x, Tensor& total) {
  dispatch_floating(x.dtype(), "sum_of_squares", [&](auto zero) {
    using T = decltype(zero);
    constexpr int kPack = kWidth<T>;
    const Squares<T> body{x.data<T>(), total.mutable_data<double>()};
    reduce_flat<kPack>(x.numel(), aligned<kPack>(body.x), body, x.device());
  });
}

/// Whether something that is not finite was found.
struct Found {
  int32_t bad;
  static __device__ Found none() { return {0}; }
  __device__ void merge(const Found& other) { bad |= other.bad; }
};

/// Whether all is finite, of x or of x * factor, which takes its place.
template <class T, bool kScale>
struct Finite {
  using Value = Found;
  using C = compute_t<T>;
  T* x;
  C factor;
  int32_t* finite;
  template <int N>
  __device__ void run(int64_t i, Found& found) const {
    Pack<T, N> values = load<N>(x + i);
    for (int k = 0; k < N; ++k) {
      C v = static_cast<C>(values[k]);
      if constexpr (kScale) v *= factor;
      found.bad |= !(v - v == C(0));  // infinity and NaN: their difference from themselves is none
      if constexpr (kScale) values[k] = T(v);
    }
    if constexpr (kScale) store(x + i, values);
  }
  __device__ void finish(const Found& found) const { *finite = found.bad == 0; }
};

void scale_and_check(double factor, Tensor& x, Tensor& finite) {
  dispatch_floating(x.dtype(), "scale_and_check", [&](auto zero) {
    using T = decltype(zero);
    constexpr int kPack = kWidth<T>;
    const Finite<T, true> body{x.mutable_data<T>(), static_cast<compute_t<T>>(factor),
                               finite.mutable_data<int32_t>()};
    reduce_flat<kPack>(x.numel(), aligned<kPack>(body.x), body, x.device());
  });
}

void all_finite(const Tensor& x, Tensor& finite) {
  dispatch_floating(x.dtype(), "all_finite", [&](auto zero) {
    using T = decltype(zero);
    constexpr int kPack = kWidth<T>;
    // Not written to: kScale is false.
    const Finite<T, false> body{const_cast<T*>(x.data<T>()), compute_t<T>(1),
                                finite.mutable_data<int32_t>()};
    reduce_flat<kPack>(x.numel(), aligned<kPack>(body.x), body, x.device());
  });
}

}  // namespace

const ReduceKernels kReduce{.sum_to = sum_to,
                            .broadcast_to = broadcast_to,
                            .max = max,
                            .max_backward = max_backward,
                            .sum_of_squares = sum_of_squares,
                            .scale_and_check = scale_and_check,
                            .all_finite = all_finite};

}  // namespace lockstep::LOCKSTEP_GPU
