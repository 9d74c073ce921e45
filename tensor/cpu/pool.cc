// Pooling. Every kernel owns the pixels that it writes and gathers what they need, also backward:
// no clearing pass, no two threads on one pixel, the same result for any number of threads. The
// inner loops run over channels.
#include "lockstep/tensor/ops/pool.h"

#include "lockstep/tensor/cpu/cpu_backend.h"
#include "lockstep/tensor/cpu/parallel.h"

namespace lockstep {
namespace {

using cpu::kGrain;
using cpu::parallel_for;

constexpr int64_t kTile =
    128;  // channels whose running values stay in registers and the first-level cache

struct Geometry {
  int64_t n, h, w, channels, oh, ow;
  Pool2dOptions o;

  Geometry(const Shape& x, const Shape& y, const Pool2dOptions& options)
      : n(x[0]), h(x[1]), w(x[2]), channels(x[3]), oh(y[1]), ow(y[2]), o(options) {}

  struct Range {
    int64_t begin, end;
  };
  /// The taps of the window at output position `out` that lie within [0, size).
  Range taps(size_t axis, int64_t out, int64_t size) const {
    const int64_t start = out * o.stride[axis] - o.padding[axis];
    return {std::max<int64_t>(0, -start), std::min(o.kernel[axis], size - start)};
  }
  /// The output positions whose windows contain input position `in`.
  Range windows(size_t axis, int64_t in, int64_t count) const {
    const int64_t reach = in + o.padding[axis];
    const int64_t first =
        reach < o.kernel[axis] ? 0 : (reach - o.kernel[axis]) / o.stride[axis] + 1;
    return {first, std::min(count, reach / o.stride[axis] + 1)};
  }
  int64_t x_at(int64_t image, int64_t iy, int64_t ix) const {
    return ((image * h + iy) * w + ix) * channels;
  }
  int64_t y_at(int64_t image, int64_t oy, int64_t ox) const {
    return ((image * oh + oy) * ow + ox) * channels;
  }

  /// Calls fn(image, oy, ox, first channel, channels) for every output position and tile of
  /// channels.
  template <class Fn>
  void each_output(Fn&& fn) const {
    each(oh, ow, o.kernel[0] * o.kernel[1], fn);
  }
  template <class Fn>
  void each_input(Fn&& fn) const {
    each(h, w, 4, fn);
  }

 private:
  template <class Fn>
  void each(int64_t height, int64_t width, int64_t cost, Fn&& fn) const {
    const int64_t tiles = (channels + kTile - 1) / kTile;
    const int64_t grain = std::max<int64_t>(kGrain / (std::min(channels, kTile) * cost), 1);
    parallel_for(n * height * width * tiles, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t tile = i % tiles * kTile;
        const int64_t pixel = i / tiles;
        fn(pixel / (height * width), pixel / width % height, pixel % width, tile,
           std::min(kTile, channels - tile));
      }
    });
  }
};

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
    using C = compute_t<T>;
    const T* in = x.data<T>();
    T* out = y.mutable_data<T>();
    dispatch_index(argmax, [&](auto index_zero) {
      using I = decltype(index_zero);
      I* arg = argmax.mutable_data<I>();
      g.each_output([=](int64_t image, int64_t oy, int64_t ox, int64_t tile, int64_t width) {
        const auto rows = g.taps(0, oy, g.h);
        const auto columns = g.taps(1, ox, g.w);
        C best[kTile];
        int32_t from[kTile];
        bool first = true;
        for (int64_t ky = rows.begin; ky < rows.end; ++ky) {
          for (int64_t kx = columns.begin; kx < columns.end; ++kx) {
            const T* v = in +
                         g.x_at(image, oy * g.o.stride[0] - g.o.padding[0] + ky,
                                ox * g.o.stride[1] - g.o.padding[1] + kx) +
                         tile;
            const auto position = static_cast<int32_t>(ky * g.o.kernel[1] + kx);
            if (first) {
              for (int64_t c = 0; c < width; ++c) best[c] = static_cast<C>(v[c]);
              std::fill(from, from + width, position);
              first = false;
              continue;
            }
            for (int64_t c = 0; c < width; ++c) {
              const C value = static_cast<C>(v[c]);
              const bool wins =
                  !(value <= best[c]) & (best[c] == best[c]);  // a NaN wins and is never beaten
              best[c] = wins ? value : best[c];
              from[c] = wins ? position : from[c];
            }
          }
        }
        const int64_t at = g.y_at(image, oy, ox) + tile;
        for (int64_t c = 0; c < width; ++c) {
          out[at + c] = T(best[c]);
          arg[at + c] = static_cast<I>(from[c]);
        }
      });
    });
  });
}

/// grad_x of every pixel: the sum of `fn(output position, tap)[c]` over the windows that contain
/// it.
template <class T, class Fn>
void gather_gradient(const Geometry& g, const Dest& grad_x, Fn&& add) {
  using C = compute_t<T>;
  Tensor target = grad_x.out;
  T* dx = target.mutable_data<T>();
  const bool accumulate = grad_x.accumulate;
  g.each_input(
      [&, dx, accumulate](int64_t image, int64_t iy, int64_t ix, int64_t tile, int64_t width) {
        C sum[kTile];
        T* to = dx + g.x_at(image, iy, ix) + tile;
        for (int64_t c = 0; c < width; ++c) sum[c] = accumulate ? static_cast<C>(to[c]) : C(0);
        const auto rows = g.windows(0, iy, g.oh);
        const auto columns = g.windows(1, ix, g.ow);
        for (int64_t oy = rows.begin; oy < rows.end; ++oy) {
          for (int64_t ox = columns.begin; ox < columns.end; ++ox) {
            const int64_t ky = iy + g.o.padding[0] - oy * g.o.stride[0];
            const int64_t kx = ix + g.o.padding[1] - ox * g.o.stride[1];
            add(g.y_at(image, oy, ox) + tile, static_cast<int32_t>(ky * g.o.kernel[1] + kx), width,
                sum);
          }
        }
        for (int64_t c = 0; c < width; ++c) to[c] = T(sum[c]);
      });
}

void max_backward(const Tensor& grad_y, const Tensor& argmax, const Pool2dOptions& options,
                  const Dest& grad_x) {
  const Geometry g(grad_x.out.shape(), grad_y.shape(), options);
  dispatch_floating(grad_y.dtype(), "max_pool2d_backward", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const T* grad = grad_y.data<T>();
    dispatch_index(argmax, [&](auto index_zero) {
      using I = decltype(index_zero);
      const I* arg = argmax.data<I>();
      gather_gradient<T>(g, grad_x, [=](int64_t at, int32_t position, int64_t width, C* sum) {
#pragma omp simd
        for (int64_t c = 0; c < width; ++c) {
          const C v = static_cast<C>(grad[at + c]);  // loaded in any case: no branch
          sum[c] += static_cast<int32_t>(arg[at + c]) == position ? v : C(0);
        }
      });
    });
  });
}

void avg_forward(const Tensor& x, const Pool2dOptions& options, Tensor& y) {
  const Geometry g(x.shape(), y.shape(), options);
  dispatch_floating(x.dtype(), "avg_pool2d", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const T* in = x.data<T>();
    T* out = y.mutable_data<T>();
    const C share = C(1) / static_cast<C>(options.kernel[0] * options.kernel[1]);
    g.each_output([=](int64_t image, int64_t oy, int64_t ox, int64_t tile, int64_t width) {
      const auto rows = g.taps(0, oy, g.h);
      const auto columns = g.taps(1, ox, g.w);
      C sum[kTile] = {};
      for (int64_t ky = rows.begin; ky < rows.end; ++ky) {
        for (int64_t kx = columns.begin; kx < columns.end; ++kx) {
          const T* v = in +
                       g.x_at(image, oy * g.o.stride[0] - g.o.padding[0] + ky,
                              ox * g.o.stride[1] - g.o.padding[1] + kx) +
                       tile;
          for (int64_t c = 0; c < width; ++c) sum[c] += static_cast<C>(v[c]);
        }
      }
      T* to = out + g.y_at(image, oy, ox) + tile;
      for (int64_t c = 0; c < width; ++c) to[c] = T(sum[c] * share);
    });
  });
}

void avg_backward(const Tensor& grad_y, const Pool2dOptions& options, const Dest& grad_x) {
  const Geometry g(grad_x.out.shape(), grad_y.shape(), options);
  dispatch_floating(grad_y.dtype(), "avg_pool2d_backward", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const T* grad = grad_y.data<T>();
    const C share = C(1) / static_cast<C>(options.kernel[0] * options.kernel[1]);
    gather_gradient<T>(g, grad_x, [=](int64_t at, int32_t, int64_t width, C* sum) {
#pragma omp simd
      for (int64_t c = 0; c < width; ++c) sum[c] += static_cast<C>(grad[at + c]) * share;
    });
  });
}

}  // namespace

const PoolKernels kCpuPool{.max_forward = max_forward,
                           .max_backward = max_backward,
                           .avg_forward = avg_forward,
                           .avg_backward = avg_backward};

}  // namespace lockstep
