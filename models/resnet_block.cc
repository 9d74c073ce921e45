#include "lockstep/models/resnet_block.h"

#include "lockstep/tensor/ops/copy.h"

namespace lockstep {
namespace {

/// The shortcut to `out` channels at `stride`, or null when the input itself fits.
std::unique_ptr<Sequential> make_downsample(const ResNetBlockSpec& spec, int64_t out,
                                            Generator& rng) {
  if (spec.stride == 1 && spec.in_channels == out) return nullptr;
  auto downsample = std::make_unique<Sequential>();
  downsample->add<Conv2d>(resnet_conv(spec.in_channels, out, 1, spec.stride), rng);
  downsample->add<BatchNorm2d>(BatchNorm2dSpec{.channels = out});
  return downsample;
}

}  // namespace

Conv2dSpec resnet_conv(int64_t in, int64_t out, int64_t kernel, int64_t stride) {
  return {.in_channels = in,
          .out_channels = out,
          .kernel = kernel,
          .stride = stride,
          .padding = kernel / 2,
          .bias = false,
          .init = ConvInit::kKaimingNormalFanOut};
}

BasicBlock::BasicBlock(const ResNetBlockSpec& spec, Generator& rng)
    : conv1_(resnet_conv(spec.in_channels, spec.width, 3, spec.stride), rng),
      bn1_({.channels = spec.width}),
      conv2_(resnet_conv(spec.width, spec.width, 3), rng),
      bn2_({.channels = spec.width}),
      downsample_(make_downsample(spec, spec.width * kExpansion, rng)) {
  register_module("conv1", conv1_);
  register_module("bn1", bn1_);
  register_module("conv2", conv2_);
  register_module("bn2", bn2_);
  if (downsample_) register_module("downsample", *downsample_);
  if (spec.zero_init_residual) ops::fill(bn2_.weight.mutable_data(), 0);
}

Variable BasicBlock::forward(const Variable& x) {
  const Variable shortcut = downsample_ ? downsample_->forward(x) : x;
  const Variable y = bn1_.forward_relu(conv1_(x));
  return bn2_.forward_relu(conv2_(y), shortcut);
}

Bottleneck::Bottleneck(const ResNetBlockSpec& spec, Generator& rng)
    : conv1_(resnet_conv(spec.in_channels, spec.width, 1), rng),
      bn1_({.channels = spec.width}),
      conv2_(resnet_conv(spec.width, spec.width, 3, spec.stride), rng),
      bn2_({.channels = spec.width}),
      conv3_(resnet_conv(spec.width, spec.width * kExpansion, 1), rng),
      bn3_({.channels = spec.width * kExpansion}),
      downsample_(make_downsample(spec, spec.width * kExpansion, rng)) {
  register_module("conv1", conv1_);
  register_module("bn1", bn1_);
  register_module("conv2", conv2_);
  register_module("bn2", bn2_);
  register_module("conv3", conv3_);
  register_module("bn3", bn3_);
  if (downsample_) register_module("downsample", *downsample_);
  if (spec.zero_init_residual) ops::fill(bn3_.weight.mutable_data(), 0);
}

Variable Bottleneck::forward(const Variable& x) {
  const Variable shortcut = downsample_ ? downsample_->forward(x) : x;
  Variable y = bn1_.forward_relu(conv1_(x));
  y = bn2_.forward_relu(conv2_(y));
  return bn3_.forward_relu(conv3_(y), shortcut);
}

}  // namespace lockstep
