// Pooling layers, on x [N, H, W, C].
#pragma once

#include "lockstep/autograd/ops/pool.h"
#include "lockstep/nn/module.h"

namespace lockstep {

class MaxPool2d final : public Layer {
 public:
  explicit MaxPool2d(const Pool2dOptions& options) : options_(options) {}
  Variable forward(const Variable& x) override { return max_pool2d(x, options_); }

 private:
  Pool2dOptions options_;
};

class AvgPool2d final : public Layer {
 public:
  explicit AvgPool2d(const Pool2dOptions& options) : options_(options) {}
  Variable forward(const Variable& x) override { return avg_pool2d(x, options_); }

 private:
  Pool2dOptions options_;
};

/// [N, C]: the mean over each image.
class GlobalAvgPool2d final : public Layer {
 public:
  Variable forward(const Variable& x) override { return global_avg_pool2d(x); }
};

}  // namespace lockstep
