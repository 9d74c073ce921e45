#include "lockstep/tensor/ops/conv.h"

#include "lockstep/tensor/cpu/conv_reference.h"
#include "lockstep/tensor/cpu/cpu_backend.h"
#include "lockstep/tensor/cpu/parallel.h"
#include "lockstep/tensor/ops/copy.h"

namespace lockstep {
namespace {

Tensor to_f64(const Tensor& x) {
  if (!x.defined() || x.dtype() == DType::kF64) return x;
  Tensor out = Tensor::empty(x.shape(), DType::kF64);
  kCpuCopy.copy(x, out);
  return out;
}

/// Runs `fn` on an f64 twin of `dest`.
template <class Fn>
void through_f64(const Dest& dest, Fn&& fn) {
  if (dest.out.dtype() == DType::kF64) return fn(dest);
  const Dest twin{to_f64(dest.out), dest.accumulate};
  fn(twin);
  Tensor out = dest.out;
  kCpuCopy.copy(twin.out, out);
}

void forward(const Tensor& x, const Tensor& weight, const Tensor& bias,
             const Conv2dOptions& options, Tensor& y) {
  through_f64({y, false}, [&](const Dest& dest) {
    Tensor out = dest.out;
    cpu::conv2d_reference(to_f64(x), to_f64(weight), to_f64(bias), options, out);
  });
}

void backward_data(const Tensor& grad_y, const Tensor& weight, const Conv2dOptions& options,
                   const Dest& grad_x) {
  through_f64(grad_x, [&](const Dest& dest) {
    cpu::conv2d_reference_backward_data(to_f64(grad_y), to_f64(weight), options, dest);
  });
}

void backward_weight(const Tensor& grad_y, const Tensor& x, const Conv2dOptions& options,
                     const Dest& grad_weight) {
  through_f64(grad_weight, [&](const Dest& dest) {
    cpu::conv2d_reference_backward_weight(to_f64(grad_y), to_f64(x), options, dest);
  });
}

void backward_bias(const Tensor& grad_y, const Dest& grad_bias) {
  const int64_t channels = grad_y.dim(-1);
  const int64_t rows = grad_y.numel() / channels;
  dispatch_floating(grad_y.dtype(), "conv2d_backward_bias", [&](auto zero) {
    using T = decltype(zero);
    const T* g = grad_y.data<T>();
    dispatch_floating(grad_bias.out.dtype(), "conv2d_backward_bias", [&](auto grad_zero) {
      using B = decltype(grad_zero);
      Tensor target = grad_bias.out;
      B* out = target.mutable_data<B>();
      // Threads split the channels, so the order of the sums does not depend on their number.
      cpu::parallel_for(channels, 16, [&](int64_t first, int64_t last) {
        constexpr int64_t kTile = 64;
        for (int64_t tile = first; tile < last; tile += kTile) {
          const int64_t width = std::min(kTile, last - tile);
          double sums[kTile] = {};
          for (int64_t row = 0; row < rows; ++row) {
            const T* from = g + row * channels + tile;
            for (int64_t c = 0; c < width; ++c)
              sums[c] += static_cast<double>(static_cast<compute_t<T>>(from[c]));
          }
          for (int64_t c = 0; c < width; ++c) {
            using C = compute_t<B>;
            const double before =
                grad_bias.accumulate ? static_cast<double>(static_cast<C>(out[tile + c])) : 0.0;
            out[tile + c] = B(static_cast<C>(before + sums[c]));
          }
        }
      });
    });
  });
}

}  // namespace

const ConvKernels kCpuConv{.forward = forward,
                           .backward_data = backward_data,
                           .backward_weight = backward_weight,
                           .backward_bias = backward_bias};

}  // namespace lockstep
