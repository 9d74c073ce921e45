// Pooling. A thread owns 16 bytes of neighbouring channels of one pixel of the result (or one,
// where their number or place does not allow that) and gathers what they need, also backward: no
// clearing, no atomics.
#include "lockstep/tensor/ops/pool.h"

#include "lockstep/tensor/cuda/launch.h"
#include "lockstep/tensor/cuda/rows.h"
#include "lockstep/tensor/cuda/tables.h"
#include "lockstep/tensor/cuda/vector.h"

namespace lockstep::LOCKSTEP_GPU {
namespace {

struct Geometry {
  int64_t h, w, channels, oh, ow;
  int64_t kernel_y, kernel_x, stride_y, stride_x, padding_y, padding_x;

  Geometry(const Shape& x, const Shape& y, const Pool2dOptions& o)
      : h(x[1]),
        w(x[2]),
        channels(x[3]),
        oh(y[1]),
        ow(y[2]),
        kernel_y(o.kernel[0]),
        kernel_x(o.kernel[1]),
        stride_y(o.stride[0]),
        stride_x(o.stride[1]),
        padding_y(o.padding[0]),
        padding_x(o.padding[1]) {}

  __device__ int64_t x_at(int64_t image, int64_t iy, int64_t ix, int64_t c) const {
    return ((image * h + iy) * w + ix) * channels + c;
  }
  __device__ int64_t y_at(int64_t image, int64_t oy, int64_t ox, int64_t c) const {
    return ((image * oh + oy) * ow + ox) * channels + c;
  }
};

/// Pixel and first channel of pack number `i` in images of height x width.
struct Place {
  int64_t image, y, x, c;
  __device__ Place(int64_t i, int64_t height, int64_t width, int64_t packs, int count)
      : image(i / packs / width / height),
        y(i / packs / width % height),
        x(i / packs % width),
        c(i % packs * count) {}
};

/// Calls fn(offset in x, position in the window) for the taps of an output pixel that lie in the
/// image.
template <class Fn>
__device__ void each_tap(const Geometry& g, const Place& at, Fn&& fn) {
  for (int64_t ky = 0; ky < g.kernel_y; ++ky) {
    const int64_t iy = at.y * g.stride_y - g.padding_y + ky;
    if (iy < 0 || iy >= g.h) continue;
    for (int64_t kx = 0; kx < g.kernel_x; ++kx) {
      const int64_t ix = at.x * g.stride_x - g.padding_x + kx;
      if (ix >= 0 && ix < g.w)
        fn(g.x_at(at.image, iy, ix, at.c), static_cast<int>(ky * g.kernel_x + kx));
    }
  }
}

/// Calls fn(offset in y, position in the window) for the windows that an input pixel lies in.
template <class Fn>
__device__ void each_window(const Geometry& g, const Place& at, Fn&& fn) {
  const int64_t reach_y = at.y + g.padding_y;
  const int64_t reach_x = at.x + g.padding_x;
  const int64_t first_y = reach_y < g.kernel_y ? 0 : (reach_y - g.kernel_y) / g.stride_y + 1;
  const int64_t first_x = reach_x < g.kernel_x ? 0 : (reach_x - g.kernel_x) / g.stride_x + 1;
  for (int64_t oy = first_y; oy < g.oh && oy * g.stride_y <= reach_y; ++oy) {
    for (int64_t ox = first_x; ox < g.ow && ox * g.stride_x <= reach_x; ++ox) {
      const int64_t position = (reach_y - oy * g.stride_y) * g.kernel_x + reach_x - ox * g.stride_x;
      fn(g.y_at(at.image, oy, ox, at.c), static_cast<int>(position));
    }
  }
}

template <int kCount, class T, class I>
struct MaxForward {
  using C = compute_t<T>;
  Geometry g;
  const T* x;
  T* y;
  I* argmax;
  __device__ void operator()(int64_t i) const {
    const Place at(i, g.oh, g.ow, g.channels / kCount, kCount);
    C best[kCount] = {};
    int from[kCount] = {};
    bool first = true;
    each_tap(g, at, [&](int64_t offset, int position) {
      const Pack<T, kCount> values = load<kCount>(x + offset);
#pragma unroll
      for (int j = 0; j < kCount; ++j) {
        const C v = static_cast<C>(values.at[j]);
        // A NaN wins and is never beaten.
        if (first || (!(v <= best[j]) && best[j] == best[j])) {
          best[j] = v;
          from[j] = position;
        }
      }
      first = false;
    });
    Pack<T, kCount> values;
    Pack<I, kCount> positions;
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      values.at[j] = T(best[j]);
      positions.at[j] = static_cast<I>(from[j]);
    }
    const int64_t to = g.y_at(at.image, at.y, at.x, at.c);
    store(y + to, values);
    store(argmax + to, positions);
  }
};

/// grad_x (+)= the sum over the windows of what `add` makes of them.
template <int kCount, class T, class Add>
struct Gather {
  using C = compute_t<T>;
  Geometry g;
  Add add;
  T* grad_x;
  bool accumulate;
  __device__ void operator()(int64_t i) const {
    const Place at(i, g.h, g.w, g.channels / kCount, kCount);
    T* to = grad_x + g.x_at(at.image, at.y, at.x, at.c);
    C sum[kCount] = {};
    Pack<T, kCount> values;
    if (accumulate) {
      values = load<kCount>(to);
      for (int j = 0; j < kCount; ++j) sum[j] = static_cast<C>(values.at[j]);
    }
    each_window(g, at, [&](int64_t offset, int position) { add(offset, position, sum); });
#pragma unroll
    for (int j = 0; j < kCount; ++j) values.at[j] = T(sum[j]);
    store(to, values);
  }
};

template <int kCount, class T, class I>
struct AddWhereMax {
  const T* grad_y;
  const I* argmax;
  __device__ void operator()(int64_t offset, int position, compute_t<T>* sum) const {
    const Pack<T, kCount> grads = load<kCount>(grad_y + offset);
    const Pack<I, kCount> from = load<kCount>(argmax + offset);
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      if (static_cast<int>(from.at[j]) == position)
        sum[j] += static_cast<compute_t<T>>(grads.at[j]);
    }
  }
};

template <int kCount, class T>
struct AddShare {
  const T* grad_y;
  compute_t<T> share;
  __device__ void operator()(int64_t offset, int, compute_t<T>* sum) const {
    const Pack<T, kCount> grads = load<kCount>(grad_y + offset);
#pragma unroll
    for (int j = 0; j < kCount; ++j) sum[j] += static_cast<compute_t<T>>(grads.at[j]) * share;
  }
};

template <int kCount, class T>
struct AvgForward {
  using C = compute_t<T>;
  Geometry g;
  const T* x;
  T* y;
  C share;
  __device__ void operator()(int64_t i) const {
    const Place at(i, g.oh, g.ow, g.channels / kCount, kCount);
    C sum[kCount] = {};
    each_tap(g, at, [&](int64_t offset, int) {
      const Pack<T, kCount> values = load<kCount>(x + offset);
#pragma unroll
      for (int j = 0; j < kCount; ++j) sum[j] += static_cast<C>(values.at[j]);
    });
    Pack<T, kCount> values;
#pragma unroll
    for (int j = 0; j < kCount; ++j) values.at[j] = T(sum[j] * share);
    store(y + g.y_at(at.image, at.y, at.x, at.c), values);
  }
};

template <int kCount>
struct Count {
  static constexpr int value = kCount;
};

/// Calls fn(Count, numel / count) with how many elements of T a thread takes of tensors that hold
/// `channels` side by side.
template <class T, class Fn, class... Memory>
void with_packs(int64_t channels, int64_t numel, Fn&& fn, const Memory*... tensors) {
  constexpr int kMost = kPack<T>;
  if (channels % kMost == 0 && (aligned<kMost>(tensors) && ...)) {
    fn(Count<kMost>{}, numel / kMost);
  } else {
    fn(Count<1>{}, numel);
  }
}

template <class Fn>
void dispatch_index(const Tensor& argmax, Fn&& fn) {
  if (argmax.dtype() == DType::kU8) {
    fn(uint8_t{});
  } else {
    fn(int32_t{});
  }
}

void max_forward(const Tensor& x, const Pool2dOptions& options, Tensor& y, Tensor& argmax) {
  const Geometry g(x.shape(), y.shape(), options);
  dispatch_floating(x.dtype(), "max_pool2d", [&](auto zero) {
    using T = decltype(zero);
    dispatch_index(argmax, [&](auto index_zero) {
      using I = decltype(index_zero);
      const T* from = x.data<T>();
      T* to = y.mutable_data<T>();
      I* positions = argmax.mutable_data<I>();
      with_packs<T>(
          g.channels, y.numel(),
          [&](auto count, int64_t packs) {
            for_each(packs, MaxForward<decltype(count)::value, T, I>{g, from, to, positions});
          },
          from, to, positions);
    });
  });
}

void max_backward(const Tensor& grad_y, const Tensor& argmax, const Pool2dOptions& options,
                  const Dest& grad_x) {
  Tensor target = grad_x.out;
  const Geometry g(target.shape(), grad_y.shape(), options);
  dispatch_floating(grad_y.dtype(), "max_pool2d_backward", [&](auto zero) {
    using T = decltype(zero);
    dispatch_index(argmax, [&](auto index_zero) {
      using I = decltype(index_zero);
      const T* grad = grad_y.data<T>();
      const I* from = argmax.data<I>();
      T* to = target.mutable_data<T>();
      with_packs<T>(
          g.channels, target.numel(),
          [&](auto count, int64_t packs) {
            using Add = AddWhereMax<decltype(count)::value, T, I>;
            for_each(packs, Gather<decltype(count)::value, T, Add>{g, Add{grad, from}, to,
                                                                   grad_x.accumulate});
          },
          grad, from, to);
    });
  });
}

void avg_forward(const Tensor& x, const Pool2dOptions& options, Tensor& y) {
  const Geometry g(x.shape(), y.shape(), options);
  dispatch_floating(x.dtype(), "avg_pool2d", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const T* from = x.data<T>();
    T* to = y.mutable_data<T>();
    const C share = C(1) / static_cast<C>(g.kernel_y * g.kernel_x);
    with_packs<T>(
        g.channels, y.numel(),
        [&](auto count, int64_t packs) {
          for_each(packs, AvgForward<decltype(count)::value, T>{g, from, to, share});
        },
        from, to);
  });
}

void avg_backward(const Tensor& grad_y, const Pool2dOptions& options, const Dest& grad_x) {
  Tensor target = grad_x.out;
  const Geometry g(target.shape(), grad_y.shape(), options);
  dispatch_floating(grad_y.dtype(), "avg_pool2d_backward", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const T* grad = grad_y.data<T>();
    T* to = target.mutable_data<T>();
    const C share = C(1) / static_cast<C>(g.kernel_y * g.kernel_x);
    with_packs<T>(
        g.channels, target.numel(),
        [&](auto count, int64_t packs) {
          using Add = AddShare<decltype(count)::value, T>;
          for_each(packs, Gather<decltype(count)::value, T, Add>{g, Add{grad, share}, to,
                                                                 grad_x.accumulate});
        },
        grad, to);
  });
}

}  // namespace

const PoolKernels kPool{.max_forward = max_forward,
                        .max_backward = max_backward,
                        .avg_forward = avg_forward,
                        .avg_backward = avg_backward};

}  // namespace lockstep::LOCKSTEP_GPU
