#include "lockstep/tensor/cpu/conv_reference.h"

#include "lockstep/tensor/cpu/parallel.h"

namespace lockstep::cpu {
namespace {

/// Sizes of one convolution, and where each output position reads.
struct Geometry {
  int64_t n, h, w, in, out, kh, kw, oh, ow, in_per_group, out_per_group;
  Conv2dOptions o;

  Geometry(const Shape& x, const Shape& weight, const Shape& y, const Conv2dOptions& options)
      : n(x[0]),
        h(x[1]),
        w(x[2]),
        in(x[3]),
        out(weight[0]),
        kh(weight[1]),
        kw(weight[2]),
        oh(y[1]),
        ow(y[2]),
        in_per_group(weight[3]),
        out_per_group(weight[0] / options.groups),
        o(options) {}

  /// Calls fn(oy, ox, ky, kx, iy, ix) for every pair of an output position and a kernel tap that
  /// lies in the image.
  template <class Fn>
  void each_tap(Fn&& fn) const {
    for (int64_t oy = 0; oy < oh; ++oy) {
      for (int64_t ky = 0; ky < kh; ++ky) {
        const int64_t iy = oy * o.stride[0] - o.padding[0] + ky * o.dilation[0];
        if (iy < 0 || iy >= h) continue;
        for (int64_t ox = 0; ox < ow; ++ox) {
          for (int64_t kx = 0; kx < kw; ++kx) {
            const int64_t ix = ox * o.stride[1] - o.padding[1] + kx * o.dilation[1];
            if (ix >= 0 && ix < w) fn(oy, ox, ky, kx, iy, ix);
          }
        }
      }
    }
  }

  int64_t x_at(int64_t image, int64_t iy, int64_t ix) const {
    return ((image * h + iy) * w + ix) * in;
  }
  int64_t y_at(int64_t image, int64_t oy, int64_t ox) const {
    return ((image * oh + oy) * ow + ox) * out;
  }
  int64_t weight_at(int64_t k, int64_t ky, int64_t kx) const {
    return ((k * kh + ky) * kw + kx) * in_per_group;
  }
};

}  // namespace

void conv2d_reference(const Tensor& x, const Tensor& weight, const Tensor& bias,
                      const Conv2dOptions& options, Tensor& y) {
  const Geometry g(x.shape(), weight.shape(), y.shape(), options);
  const double* image = x.data<double>();
  const double* kernel = weight.data<double>();
  const double* offset = bias.defined() ? bias.data<double>() : nullptr;
  double* result = y.mutable_data<double>();
  parallel_for(g.n, 1, [&](int64_t first, int64_t last) {
    for (int64_t n = first; n < last; ++n) {
      double* of_image = result + g.y_at(n, 0, 0);
      for (int64_t i = 0; i < g.oh * g.ow * g.out; ++i)
        of_image[i] = offset == nullptr ? 0 : offset[i % g.out];
      g.each_tap([&](int64_t oy, int64_t ox, int64_t ky, int64_t kx, int64_t iy, int64_t ix) {
        for (int64_t k = 0; k < g.out; ++k) {
          const double* in = image + g.x_at(n, iy, ix) + k / g.out_per_group * g.in_per_group;
          const double* taps = kernel + g.weight_at(k, ky, kx);
          double sum = 0;
          for (int64_t c = 0; c < g.in_per_group; ++c) sum += in[c] * taps[c];
          result[g.y_at(n, oy, ox) + k] += sum;
        }
      });
    }
  });
}

void conv2d_reference_backward_data(const Tensor& grad_y, const Tensor& weight,
                                    const Conv2dOptions& options, const Dest& grad_x) {
  Tensor target = grad_x.out;
  const Geometry g(target.shape(), weight.shape(), grad_y.shape(), options);
  const double* grad = grad_y.data<double>();
  const double* kernel = weight.data<double>();
  double* result = target.mutable_data<double>();
  parallel_for(g.n, 1, [&](int64_t first, int64_t last) {
    if (!grad_x.accumulate)
      std::fill(result + g.x_at(first, 0, 0), result + g.x_at(last, 0, 0), 0.0);
    for (int64_t n = first; n < last; ++n) {
      g.each_tap([&](int64_t oy, int64_t ox, int64_t ky, int64_t kx, int64_t iy, int64_t ix) {
        for (int64_t k = 0; k < g.out; ++k) {
          double* in = result + g.x_at(n, iy, ix) + k / g.out_per_group * g.in_per_group;
          const double* taps = kernel + g.weight_at(k, ky, kx);
          const double v = grad[g.y_at(n, oy, ox) + k];
          for (int64_t c = 0; c < g.in_per_group; ++c) in[c] += v * taps[c];
        }
      });
    }
  });
}

void conv2d_reference_backward_weight(const Tensor& grad_y, const Tensor& x,
                                      const Conv2dOptions& options, const Dest& grad_weight) {
  Tensor target = grad_weight.out;
  const Geometry g(x.shape(), target.shape(), grad_y.shape(), options);
  const double* grad = grad_y.data<double>();
  const double* image = x.data<double>();
  double* result = target.mutable_data<double>();
  parallel_for(g.out, 1, [&](int64_t first, int64_t last) {
    if (!grad_weight.accumulate)
      std::fill(result + g.weight_at(first, 0, 0), result + g.weight_at(last, 0, 0), 0.0);
    for (int64_t n = 0; n < g.n; ++n) {
      g.each_tap([&](int64_t oy, int64_t ox, int64_t ky, int64_t kx, int64_t iy, int64_t ix) {
        for (int64_t k = first; k < last; ++k) {
          const double* in = image + g.x_at(n, iy, ix) + k / g.out_per_group * g.in_per_group;
          double* taps = result + g.weight_at(k, ky, kx);
          const double v = grad[g.y_at(n, oy, ox) + k];
          for (int64_t c = 0; c < g.in_per_group; ++c) taps[c] += v * in[c];
        }
      });
    }
  });
}

}  // namespace lockstep::cpu
