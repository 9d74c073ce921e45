#include "lockstep/tensor/ops/conv.h"

#include "lockstep/tensor/cpu/conv_reference.h"
#include "lockstep/tensor/cpu/cpu_backend.h"
#include "lockstep/tensor/cpu/onednn/convolution.h"
#include "lockstep/tensor/cpu/parallel.h"
#include "lockstep/tensor/cpu/widen.h"

#include <algorithm>

namespace lockstep {
namespace {

namespace onednn = cpu::onednn;
using cpu::in_dtype;
using cpu::through;

/// In what a dtype is computed where oneDNN has no kernel for it on this processor: bf16 in f32,
/// f32 by the reference.
DType wider(DType dtype) { return dtype == DType::kBF16 ? DType::kF32 : DType::kF64; }

void forward(const Tensor& x, const Tensor& weight, const Tensor& bias,
             const Conv2dOptions& options, Tensor& y) {
  if (x.dtype() == DType::kF64) return cpu::conv2d_reference(x, weight, bias, options, y);
  if (onednn::conv2d(x, weight, bias, options, y)) return;
  const DType wide = wider(x.dtype());
  through(wide, {y}, [&](Dest result) {
    forward(in_dtype(x, wide), in_dtype(weight, wide), in_dtype(bias, wide), options, result.out);
  });
}

void backward_data(const Tensor& grad_y, const Tensor& weight, const Conv2dOptions& options,
                   const Dest& grad_x) {
  if (grad_x.out.dtype() != grad_y.dtype()) {
    return through(grad_y.dtype(), grad_x,
                   [&](const Dest& own) { backward_data(grad_y, weight, options, own); });
  }
  if (grad_y.dtype() == DType::kF64) {
    return cpu::conv2d_reference_backward_data(grad_y, weight, options, grad_x);
  }
  if (onednn::conv2d_backward_data(grad_y, weight, options, grad_x)) return;
  const DType wide = wider(grad_y.dtype());
  through(wide, grad_x, [&](const Dest& result) {
    backward_data(in_dtype(grad_y, wide), in_dtype(weight, wide), options, result);
  });
}

void backward_weight(const Tensor& grad_y, const Tensor& x, const Conv2dOptions& options,
                     const Dest& grad_weight) {
  if (x.dtype() == DType::kF64)
    return cpu::conv2d_reference_backward_weight(grad_y, x, options, grad_weight);
  if (onednn::conv2d_backward_weight(grad_y, x, options, grad_weight)) return;
  const DType wide = wider(x.dtype());
  through(wide, grad_weight, [&](const Dest& result) {
    backward_weight(in_dtype(grad_y, wide), in_dtype(x, wide), options, result);
  });
}

void backward_bias(const Tensor& grad_y, const Dest& grad_bias) {
  const int64_t channels = grad_y.dim(-1);
  const int64_t rows = grad_y.numel() / std::max<int64_t>(channels, 1);
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
