// The convolution layer.
#pragma once

#include "lockstep/autograd/ops/conv.h"
#include "lockstep/nn/module.h"
#include "lockstep/tensor/random.h"

#include <array>

namespace lockstep {

/// A height and a width: `3` for both or `{3, 5}`.
struct Extent2d {
  int64_t height;
  int64_t width;
  Extent2d(int64_t both) : height(both), width(both) {}  // implicit: .kernel = 3
  Extent2d(int64_t h, int64_t w) : height(h), width(w) {}
  operator std::array<int64_t, 2>() const { return {height, width}; }
};

/// How the weight of a convolution starts.
enum class ConvInit {
  kDefault,             // PyTorch's Conv2d
  kKaimingNormalFanOut  // torchvision's ResNet
};

struct Conv2dSpec {
  int64_t in_channels = 1;
  int64_t out_channels = 1;
  Extent2d kernel = 1;
  Extent2d stride = 1;
  Extent2d padding = 0;
  Extent2d dilation = 1;
  int64_t groups = 1;
  bool bias = true;
  ConvInit init = ConvInit::kDefault;
};

/// conv2d of x [N, H, W, in_channels]: [N, OH, OW, out_channels]. Parameters: weight [out_channels,
/// KH, KW, in_channels / groups] and bias [out_channels].
class Conv2d final : public Layer {
 public:
  /// Throws ArgumentError for sizes that are not positive, and channels that the groups do not
  /// divide.
  Conv2d(const Conv2dSpec& spec, Generator& rng);
  Variable forward(const Variable& x) override;

  Variable weight;
  Variable bias;  // undefined without

 private:
  Conv2dOptions options_;
};

}  // namespace lockstep
