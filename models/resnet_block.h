// The blocks that residual networks are made of.
#pragma once

#include "lockstep/nn/batch_norm.h"
#include "lockstep/nn/conv.h"
#include "lockstep/nn/module.h"
#include "lockstep/nn/sequential.h"

#include <memory>

namespace lockstep {

struct ResNetBlockSpec {
  int64_t in_channels = 1;
  int64_t width = 1;
  int64_t stride = 1;
  bool zero_init_residual = false;
};

/// The convolution that all of them use: no bias (a normalisation follows), padded to keep the size
/// at stride 1.
Conv2dSpec resnet_conv(int64_t in, int64_t out, int64_t kernel, int64_t stride = 1);

class BasicBlock final : public Layer {
 public:
  static constexpr int64_t kExpansion = 1;
  BasicBlock(const ResNetBlockSpec& spec, Generator& rng);
  Variable forward(const Variable& x) override;

 private:
  Conv2d conv1_;
  BatchNorm2d bn1_;
  Conv2d conv2_;
  BatchNorm2d bn2_;
  std::unique_ptr<Sequential> downsample_;  // null: the shortcut is the input itself
};

class Bottleneck final : public Layer {
 public:
  static constexpr int64_t kExpansion = 4;
  Bottleneck(const ResNetBlockSpec& spec, Generator& rng);
  Variable forward(const Variable& x) override;

 private:
  Conv2d conv1_;
  BatchNorm2d bn1_;
  Conv2d conv2_;
  BatchNorm2d bn2_;
  Conv2d conv3_;
  BatchNorm2d bn3_;
  std::unique_ptr<Sequential> downsample_;
};

}  // namespace lockstep
