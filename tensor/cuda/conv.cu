// Convolution by its definition, for every dtype and option: the reference for faster kernels and
// what they fall back to. A thread for each element of a result; for the weight's gradient 8, which
// share the positions.
#include "lockstep/tensor/ops/conv.h"

#include "lockstep/tensor/cuda/column_sums.h"
#include "lockstep/tensor/cuda/launch.h"
#include "lockstep/tensor/cuda/tables.h"

#include <type_traits>

namespace lockstep::LOCKSTEP_GPU {
namespace {

struct Geometry {
  int64_t h, w, in, out, kh, kw, oh, ow, in_per_group, out_per_group;
  int64_t stride_y, stride_x, padding_y, padding_x, dilation_y, dilation_x;

  Geometry(const Shape& x, const Shape& weight, const Shape& y, const Conv2dOptions& o)
      : h(x[1]),
        w(x[2]),
        in(x[3]),
        out(weight[0]),
        kh(weight[1]),
        kw(weight[2]),
        oh(y[1]),
        ow(y[2]),
        in_per_group(weight[3]),
        out_per_group(weight[0] / o.groups),
        stride_y(o.stride[0]),
        stride_x(o.stride[1]),
        padding_y(o.padding[0]),
        padding_x(o.padding[1]),
        dilation_y(o.dilation[0]),
        dilation_x(o.dilation[1]) {}
  /// The row that tap ky of output row oy reads; outside of [0, h): none.
  __device__ int64_t row(int64_t oy, int64_t ky) const {
    return oy * stride_y - padding_y + ky * dilation_y;
  }
  __device__ int64_t column(int64_t ox, int64_t kx) const {
    return ox * stride_x - padding_x + kx * dilation_x;
  }
};

template <class T, class W, class B>
struct Forward {
  using C = compute_t<T>;
  Geometry g;
  const T* x;
  const W* weight;
  const B* bias;  // may be null
  T* y;
  __device__ void operator()(int64_t i) const {
    const int64_t k = i % g.out;
    const int64_t ox = i / g.out % g.ow;
    const int64_t oy = i / g.out / g.ow % g.oh;
    const int64_t image = i / g.out / g.ow / g.oh;
    C sum = C(0);
    for (int64_t ky = 0; ky < g.kh; ++ky) {
      const int64_t iy = g.row(oy, ky);
      if (iy < 0 || iy >= g.h) continue;
      for (int64_t kx = 0; kx < g.kw; ++kx) {
        const int64_t ix = g.column(ox, kx);
        if (ix < 0 || ix >= g.w) continue;
        const T* pixel =
            x + ((image * g.h + iy) * g.w + ix) * g.in + k / g.out_per_group * g.in_per_group;
        const W* tap = weight + ((k * g.kh + ky) * g.kw + kx) * g.in_per_group;
        for (int64_t c = 0; c < g.in_per_group; ++c)
          sum += static_cast<C>(pixel[c]) * static_cast<C>(tap[c]);
      }
    }
    if (bias != nullptr) sum += static_cast<C>(bias[k]);
    y[i] = T(sum);
  }
};

template <class T, class W, class G>
struct BackwardData {
  using C = compute_t<T>;
  Geometry g;
  const T* grad_y;
  const W* weight;
  G* grad_x;
  bool accumulate;
  __device__ void operator()(int64_t i) const {
    const int64_t c = i % g.in;
    const int64_t ix = i / g.in % g.w;
    const int64_t iy = i / g.in / g.w % g.h;
    const int64_t image = i / g.in / g.w / g.h;
    const int64_t first = c / g.in_per_group * g.out_per_group;  // of the group's results
    C sum = C(0);
    for (int64_t ky = 0; ky < g.kh; ++ky) {
      const int64_t y = iy + g.padding_y - ky * g.dilation_y;  // stride times the output row
      if (y < 0 || y % g.stride_y != 0 || y / g.stride_y >= g.oh) continue;
      for (int64_t kx = 0; kx < g.kw; ++kx) {
        const int64_t x = ix + g.padding_x - kx * g.dilation_x;
        if (x < 0 || x % g.stride_x != 0 || x / g.stride_x >= g.ow) continue;
        const T* grad = grad_y + ((image * g.oh + y / g.stride_y) * g.ow + x / g.stride_x) * g.out;
        for (int64_t k = first; k < first + g.out_per_group; ++k) {
          const int64_t tap = ((k * g.kh + ky) * g.kw + kx) * g.in_per_group + c % g.in_per_group;
          sum += static_cast<C>(grad[k]) * static_cast<C>(weight[tap]);
        }
      }
    }
    grad_x[i] = G(accumulate ? static_cast<C>(grad_x[i]) + sum : sum);
  }
};

/// A block takes 32 neighbouring elements of the weight; each row of threads every 8th position.
template <class T, class W>
__global__ void backward_weight_kernel(Geometry g, int64_t positions, int64_t count,
                                       const T* grad_y, const T* x, W* grad_weight,
                                       bool accumulate) {
  using C = compute_t<T>;
  LOCKSTEP_SHARED(C, partial, [kSumRows][kSumColumns]);
  const int64_t i = int64_t{blockIdx.x} * kSumColumns + threadIdx.x;
  const int64_t c = i % g.in_per_group;
  const int64_t kx = i / g.in_per_group % g.kw;
  const int64_t ky = i / g.in_per_group / g.kw % g.kh;
  const int64_t k = i / g.in_per_group / g.kw / g.kh;
  C sum = C(0);
  for (int64_t p = threadIdx.y; i < count && p < positions; p += kSumRows) {
    const int64_t iy = g.row(p / g.ow % g.oh, ky);
    const int64_t ix = g.column(p % g.ow, kx);
    if (iy < 0 || iy >= g.h || ix < 0 || ix >= g.w) continue;
    const int64_t image = p / g.ow / g.oh;
    const int64_t channel = k / g.out_per_group * g.in_per_group + c;
    sum += static_cast<C>(grad_y[p * g.out + k]) *
           static_cast<C>(x[((image * g.h + iy) * g.w + ix) * g.in + channel]);
  }
  partial[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || i >= count) return;
  for (int row = 1; row < kSumRows; ++row) sum += partial[row][threadIdx.x];
  grad_weight[i] = W(accumulate ? static_cast<C>(grad_weight[i]) + sum : sum);
}

/// Calls fn with the type of what may also be f32 beside bf16 images of type T.
template <class T, class Fn>
void with_own_type(const Tensor& x, Fn&& fn) {
  if constexpr (std::is_same_v<T, bf16>) {
    if (x.defined() && x.dtype() == DType::kF32) return fn(float{});
  }
  fn(T{});
}

void forward(const Tensor& x, const Tensor& weight, const Tensor& bias,
             const Conv2dOptions& options, Tensor& y) {
  dispatch_floating(x.dtype(), "conv2d", [&](auto zero) {
    using T = decltype(zero);
    with_own_type<T>(weight, [&](auto weight_zero) {
      using W = decltype(weight_zero);
      with_own_type<T>(bias, [&](auto bias_zero) {
        using B = decltype(bias_zero);
        for_each(y.numel(), Forward<T, W, B>{{x.shape(), weight.shape(), y.shape(), options},
                                             x.data<T>(),
                                             weight.data<W>(),
                                             bias.defined() ? bias.data<B>() : nullptr,
                                             y.mutable_data<T>()});
      });
    });
  });
}

void backward_data(const Tensor& grad_y, const Tensor& weight, const Conv2dOptions& options,
                   const Dest& grad_x) {
  dispatch_floating(grad_y.dtype(), "conv2d_backward_data", [&](auto zero) {
    using T = decltype(zero);
    with_own_type<T>(weight, [&](auto weight_zero) {
      using W = decltype(weight_zero);
      with_own_type<T>(grad_x.out, [&](auto grad_zero) {
        using G = decltype(grad_zero);
        Tensor target = grad_x.out;
        for_each(target.numel(),
                 BackwardData<T, W, G>{{target.shape(), weight.shape(), grad_y.shape(), options},
                                       grad_y.data<T>(),
                                       weight.data<W>(),
                                       target.mutable_data<G>(),
                                       grad_x.accumulate});
      });
    });
  });
}

void backward_weight(const Tensor& grad_y, const Tensor& x, const Conv2dOptions& options,
                     const Dest& grad_weight) {
  dispatch_floating(x.dtype(), "conv2d_backward_weight", [&](auto zero) {
    using T = decltype(zero);
    with_own_type<T>(grad_weight.out, [&](auto weight_zero) {
      using W = decltype(weight_zero);
      Tensor target = grad_weight.out;
      const int64_t count = target.numel();
      const Geometry g(x.shape(), target.shape(), grad_y.shape(), options);
      launch(backward_weight_kernel<T, W>, dim3(blocks_for(count, kSumColumns)),
             dim3(kSumColumns, kSumRows), g, grad_y.numel() / g.out, count, grad_y.data<T>(),
             x.data<T>(), target.mutable_data<W>(), grad_weight.accumulate);
    });
  });
}

template <class T, class C>
struct Widened {
  const T* x;
  __device__ C operator()(int64_t i, int64_t) const { return static_cast<C>(x[i]); }
};

void backward_bias(const Tensor& grad_y, const Dest& grad_bias) {
  dispatch_floating(grad_y.dtype(), "conv2d_backward_bias", [&](auto zero) {
    using T = decltype(zero);
    with_own_type<T>(grad_bias.out, [&](auto bias_zero) {
      using B = decltype(bias_zero);
      using C = compute_t<B>;
      Tensor target = grad_bias.out;
      const int64_t channels = target.numel();
      column_sums<C>(grad_y.numel() / channels, channels, Widened<T, C>{grad_y.data<T>()},
                     target.mutable_data<B>(), grad_bias.accumulate);
    });
  });
}

}  // namespace

const ConvKernels kConv{.forward = forward,
                        .backward_data = backward_data,
                        .backward_weight = backward_weight,
                        .backward_bias = backward_bias};

}  // namespace lockstep::LOCKSTEP_GPU
