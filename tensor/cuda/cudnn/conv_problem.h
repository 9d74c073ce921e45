// A convolution as cuDNN is asked for it. Pure functions, tested without a GPU.
#pragma once

#include "lockstep/tensor/cuda/problem_cache.h"
#include "lockstep/tensor/ops/conv.h"

#include <array>
#include <cstdint>

namespace lockstep::cuda {

enum class ConvPass { kForward, kData, kWeight };

struct ConvProblem {
  ConvPass pass = ConvPass::kForward;
  DType dtype = DType::kF32;  // of all three operands
  bool accumulate = false;
  bool tf32 = false;
  Shape x, weight, y;  // NHWC, [O, KH, KW, I / groups], NHWC
  Conv2dOptions options;
};

using ConvKey = ProblemKey<16>;
/// Different for problems that need different plans.
ConvKey conv_key(const ConvProblem& problem);

/// The order in which cuDNN names the extents, and where they lie in ours: [N, H, W, C] is named
/// N, C, H, W.
struct Nchw {
  std::array<int64_t, 4> dims, strides;
};
Nchw nchw(const Shape& nhwc);

/// Whether the gradient of the weight [O, I] is a product of matrices: that of grad_y [pixels, O]
/// transposed and x [pixels, I]. Two thirds of ResNet-50's convolutions.
bool is_pointwise(const Shape& weight, const Conv2dOptions& options);

}  // namespace lockstep::cuda
