// Pooling of NHWC images.
#pragma once

#include "lockstep/tensor/dest.h"
#include "lockstep/tensor/tensor.h"

#include <array>

namespace lockstep {

/// Pairs are {height, width}. The size of the result rounds down.
struct Pool2dOptions {
  std::array<int64_t, 2> kernel{2, 2};
  std::array<int64_t, 2> stride{2, 2};
  /// At most half the kernel, so that no window lies in the padding alone.
  std::array<int64_t, 2> padding{0, 0};
};

struct PoolKernels {
  void (&max_forward)(const Tensor& x, const Pool2dOptions& options, Tensor& y, Tensor& argmax);
  void (&max_backward)(const Tensor& grad_y, const Tensor& argmax, const Pool2dOptions& options,
                       const Dest& grad_x);
  void (&avg_forward)(const Tensor& x, const Pool2dOptions& options, Tensor& y);
  void (&avg_backward)(const Tensor& grad_y, const Pool2dOptions& options, const Dest& grad_x);
};

namespace ops {

struct MaxPool2dResult {
  Tensor y;
  /// For each element of y, the position in its window (row * kernel width + column) that it came
  /// from: u8, or i32 for windows of more than 256 positions. The first of equal ones.
  Tensor argmax;
};

/// The largest of each window of x [N, H, W, C]; the padding never wins, NaN always does. f32, f64,
/// bf16. Throws ArgumentError for images without rows, columns or channels and for windows larger
/// than the padded image.
MaxPool2dResult max_pool2d(const Tensor& x, const Pool2dOptions& options);
void max_pool2d_backward(const Tensor& grad_y, const Tensor& argmax, const Pool2dOptions& options,
                         const Dest& grad_x);
/// The mean of each window, in which zeros from the padding count. Otherwise as max_pool2d.
Tensor avg_pool2d(const Tensor& x, const Pool2dOptions& options);
void avg_pool2d_backward(const Tensor& grad_y, const Pool2dOptions& options, const Dest& grad_x);
/// The mean of each channel of each image: [N, C] from [N, H, W, C].
Tensor global_avg_pool2d(const Tensor& x);
void global_avg_pool2d_backward(const Tensor& grad_y, const Dest& grad_x);

}  // namespace ops
}  // namespace lockstep
