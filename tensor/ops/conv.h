// 2-D convolution of NHWC images, and its two gradients.
#pragma once

#include "lockstep/tensor/dest.h"
#include "lockstep/tensor/tensor.h"

#include <array>

namespace lockstep {

/// Pairs are {height, width}.
struct Conv2dOptions {
  std::array<int64_t, 2> stride{1, 1};
  /// Zeros added on each side.
  std::array<int64_t, 2> padding{0, 0};
  /// Distance between the taps of the kernel; 1: dense.
  std::array<int64_t, 2> dilation{1, 1};
  int64_t groups = 1;

  bool operator==(const Conv2dOptions&) const = default;
};

struct ConvKernels {
  /// `bias` may be undefined.
  void (&forward)(const Tensor& x, const Tensor& weight, const Tensor& bias,
                  const Conv2dOptions& options, Tensor& y);
  void (&backward_data)(const Tensor& grad_y, const Tensor& weight, const Conv2dOptions& options,
                        const Dest& grad_x);
  void (&backward_weight)(const Tensor& grad_y, const Tensor& x, const Conv2dOptions& options,
                          const Dest& grad_weight);
  void (&backward_bias)(const Tensor& grad_y, const Dest& grad_bias);
};

namespace ops {

/// y [N, OH, OW, O] from x [N, H, W, I], weight [O, KH, KW, I / groups] and bias [O] or an
/// undefined tensor, where OH = (H + 2 padding - dilation (KH - 1) - 1) / stride + 1, and OW
/// likewise: the cross-correlation that deep learning calls convolution. x is f32, f64 or bf16;
/// weight and bias have x's dtype, or f32 when x is bf16. y has x's dtype. N may be 0, as on a rank
/// that has no samples. Throws ArgumentError for shapes that do not fit, and when the kernel is
/// larger than the padded image.
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
              const Conv2dOptions& options);
/// The gradient of x; grad_x.out has x's shape, and grad_y's dtype or, for bf16, f32.
void conv2d_backward_data(const Tensor& grad_y, const Tensor& weight, const Conv2dOptions& options,
                          const Dest& grad_x);
/// The gradient of weight; grad_weight.out has weight's shape and dtype.
void conv2d_backward_weight(const Tensor& grad_y, const Tensor& x, const Conv2dOptions& options,
                            const Dest& grad_weight);
/// The gradient of bias: the sum of each channel of grad_y. grad_bias.out has bias's shape and
/// dtype.
void conv2d_backward_bias(const Tensor& grad_y, const Dest& grad_bias);

}  // namespace ops
}  // namespace lockstep
