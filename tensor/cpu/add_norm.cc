// residual + dropout(x + x_bias), normalised row by row. Forward makes a row of the sum and
// normalises it while it lies in a cache. Backward takes some rows through layer normalisation's
// backward and hands what it finds, still in a cache, to the residual and through dropout to x. In
// f32 and f64 both have the bits of the ops one by one.
#include "lockstep/tensor/cpu/add_norm.h"

#include "lockstep/tensor/cpu/group_norm_units.h"
#include "lockstep/tensor/cpu/philox_lanes.h"

#include <type_traits>

namespace lockstep::cpu {
namespace {

/// Calls fn(drops, first, last, numbers) for pieces of the row of `width` elements whose first has
/// the number `begin`: numbers[i - first] is that of column i, where `drops` is true.
template <class Fn>
void each_piece(const DropoutMask& mask, int64_t begin, int64_t width, Fn&& fn) {
  if (mask.factor == 1)
    return fn(std::false_type{}, int64_t{0}, width, static_cast<const uint32_t*>(nullptr));
  constexpr int64_t kStep = 4 * kPhiloxLanes;
  PhiloxNumbers numbers;
  for (int64_t step = begin / kStep; step * kStep < begin + width; ++step) {
    philox_lanes(mask.range, step * kPhiloxLanes, numbers);
    const int64_t first = std::max(step * kStep, begin);
    const int64_t last = std::min((step + 1) * kStep, begin + width);
    fn(std::true_type{}, first - begin, last - begin, numbers.data() + (first - step * kStep));
  }
}

template <class T>
struct Forward {
  using C = compute_t<T>;
  const T* x;
  const T* residual;
  DropoutMask mask;
  int64_t width;
  T* sum;

  template <class Value>
  void row(int64_t begin, Value&& value) const {
    const C factor = static_cast<C>(mask.factor);
    const uint32_t threshold = mask.threshold;
    each_piece(mask, begin, width, [&](auto drops, int64_t first, int64_t last, const uint32_t* n) {
      const T* from = residual + begin;
      T* to = sum + begin;
      // Computed whether kept or not, so that the loop is plain vector code.
#pragma omp simd
      for (int64_t c = first; c < last; ++c) {
        C v = value(c);
        if constexpr (drops) {
          const C scaled = factor * v;
          v = (n[c - first] >> 8) >= threshold ? scaled : C(0);
        }
        store(to[c], v + static_cast<C>(from[c]));
      }
    });
  }
};

/// Rows [first, last) of the gradient of the sum, in `grad`, given on: to the residual, unless it
/// lies there already, and through dropout to x, whose columns are added up in `of_bias`.
template <class T>
struct Distribute {
  using C = compute_t<T>;
  DropoutMask mask;
  int64_t width;
  T* grad_x;  // may be null
  bool add_x;
  T* grad_residual;  // null: nothing to do

  void rows(int64_t first, int64_t last, const T* grad, C* run, double* of_bias) const {
    if (of_bias != nullptr) std::fill_n(run, width, C(0));
    for (int64_t row = first; row < last; ++row, grad += width) {
      if (grad_residual != nullptr) add(grad, grad_residual + row * width);
      if (grad_x == nullptr && of_bias == nullptr) continue;
      const auto put = [&](auto to_x, auto accumulate, auto sums) {
        give_row<to_x, accumulate, sums>(grad, row * width, run);
      };
      using std::false_type, std::true_type;
      if (grad_x == nullptr) {
        put(false_type{}, false_type{}, true_type{});
      } else if (of_bias != nullptr) {
        add_x ? put(true_type{}, true_type{}, true_type{})
              : put(true_type{}, false_type{}, true_type{});
      } else {
        add_x ? put(true_type{}, true_type{}, false_type{})
              : put(true_type{}, false_type{}, false_type{});
      }
    }
    if (of_bias == nullptr) return;
    for (int64_t c = 0; c < width; ++c) of_bias[c] += static_cast<double>(run[c]);
  }

  void add(const T* grad, T* to) const {
#pragma omp simd
    for (int64_t c = 0; c < width; ++c)
      store(to[c], static_cast<C>(to[c]) + static_cast<C>(grad[c]));
  }

  template <bool kToX, bool kAccumulate, bool kSums>
  void give_row(const T* grad, int64_t begin, C* run) const {
    const C factor = static_cast<C>(mask.factor);
    const uint32_t threshold = mask.threshold;
    T* to = kToX ? grad_x + begin : nullptr;
    each_piece(mask, begin, width, [&](auto drops, int64_t first, int64_t last, const uint32_t* n) {
#pragma omp simd
      for (int64_t c = first; c < last; ++c) {
        C v = static_cast<C>(grad[c]);
        if constexpr (drops) {
          const C scaled = factor * v;
          v = (n[c - first] >> 8) >= threshold ? scaled : C(0);
        }
        if constexpr (kSums) run[c] += v;
        if constexpr (kToX && kAccumulate) store(to[c], static_cast<C>(to[c]) + v);
        if constexpr (kToX && !kAccumulate) store(to[c], v);
      }
    });
  }
};

}  // namespace

void add_norm(const Tensor& x, const Tensor& x_bias, const Tensor& residual,
              const DropoutMask& mask, const Tensor& weight, const Tensor& bias, double eps,
              Tensor& sum, Tensor& y, Tensor& mean, Tensor& rstd) {
  dispatch_floating(x.dtype(), "dropout_add_layer_norm", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const GroupNormExtents e{mean.numel(), 1, weight.numel(), 1};
    const C* added = x_bias.defined() ? x_bias.data<C>() : nullptr;
    const Forward<T> job{x.data<T>(), residual.data<T>(), mask, e.channels, sum.mutable_data<T>()};
    const C* w = weight.data<C>();
    const C* b = bias.data<C>();
    T* out = y.mutable_data<T>();
    C* means = mean.mutable_data<C>();
    C* deviations = rstd.mutable_data<C>();
    parallel_for(e.samples, row_grain(e.channels), [=](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t at = row * e.channels;
        const T* from = job.x + at;
        if (added != nullptr) {
          job.row(at, [=](int64_t c) { return static_cast<C>(from[c]) + added[c]; });
        } else {
          job.row(at, [=](int64_t c) { return static_cast<C>(from[c]); });
        }
        normalise_units(e, row, row + 1, static_cast<const T*>(job.sum), w, b, eps, out, means,
                        deviations);
      }
    });
  });
}

void add_norm_backward(const Tensor& grad_y, const Tensor& sum, const DropoutMask& mask,
                       const Tensor& weight, const Tensor& mean, const Tensor& rstd,
                       const Dest& grad_x, const Dest& grad_residual, Tensor& sums) {
  dispatch_floating(sum.dtype(), "dropout_add_layer_norm_backward", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const int64_t width = weight.numel();
    const GroupNormExtents e{mean.numel(), 1, width, 1};
    Tensor to_x = grad_x.out, to_residual = grad_residual.out;
    T* residual = to_residual.defined() ? to_residual.mutable_data<T>() : nullptr;
    const bool in_place = residual != nullptr && !grad_residual.accumulate;
    const GroupNormGradient<T> job{
        e, grad_y.data<T>(), sum.data<T>(), weight.data<C>(), mean.data<C>(), rstd.data<C>()};
    const Distribute<T> distribute{mask, width, to_x.defined() ? to_x.mutable_data<T>() : nullptr,
                                   grad_x.accumulate, in_place ? nullptr : residual};
    const int64_t vectors = sums.defined() ? sums.dim(0) : 2;
    const Partials partials(e, vectors);
    const int64_t work = width * (e.samples / std::max<int64_t>(partials.chunks, 1));
    parallel_for(partials.chunks, row_grain(work), [&](int64_t begin, int64_t end) {
      Tensor run_memory = Tensor::empty({2 * width}, dtype_of<C>);
      Tensor tile = in_place ? Tensor() : Tensor::empty({kRun, width}, dtype_of<T>);
      C* run = run_memory.mutable_data<C>();
      for (int64_t chunk = begin; chunk < end; ++chunk) {
        double* of_weight = partials.of(chunk);
        const int64_t end_row = partials.first(chunk + 1);
        for (int64_t row = partials.first(chunk); row < end_row; row += kRun) {
          const int64_t last = std::min(row + kRun, end_row);
          T* grad = in_place ? residual + row * width : tile.mutable_data<T>();
          job.template group<true, true, false>(row, last, 0, grad, row * width, run, of_weight,
                                                of_weight + width);
          distribute.rows(row, last, grad, run, vectors == 3 ? of_weight + 2 * width : nullptr);
        }
      }
    });
    if (sums.defined()) partials.add_up(sums.mutable_data<C>());
  });
}

}  // namespace lockstep::cpu
