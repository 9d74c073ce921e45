// Residual networks (He et al., "Deep residual learning for image recognition", CVPR 2016) with
// torchvision's parameter names: "layer1.0.conv1.weight", "layer2.0.downsample.0.weight",
// "fc.bias".
#pragma once

#include "lockstep/nn/batch_norm.h"
#include "lockstep/nn/conv.h"
#include "lockstep/nn/layer_drop.h"
#include "lockstep/nn/linear.h"
#include "lockstep/nn/module.h"
#include "lockstep/nn/sequential.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

enum class ResNetBlock {
  kBasic,      // two 3x3 convolutions
  kBottleneck  // 1x1, 3x3 (which carries the stride, as in torchvision's "v1.5"), 1x1 to 4 times
               // the width
};

enum class ResNetStem {
  kImageNet,  // 7x7, stride 2, then 3x3 max-pooling, stride 2
  kCifar      // 3x3, stride 1, no pooling: for images of 8 to 64 pixels
};

/// What the depth and width of a network are made of. Each stage but the first halves the image.
struct ResNetArchitecture {
  ResNetBlock block = ResNetBlock::kBasic;
  std::vector<int64_t> blocks;  // in each stage
  std::vector<int64_t>
      widths;  // channels of each stage's 3x3 convolutions; the stem has the first one's
  ResNetStem stem = ResNetStem::kImageNet;
};

struct ResNetOptions {
  int64_t classes = 1000;
  int64_t in_channels = 3;
  /// In place of the architecture's own.
  std::optional<ResNetStem> stem = std::nullopt;
  /// The last normalisation of every block starts at zero, so that the block starts as the identity
  /// (Goyal et al., 2017).
  bool zero_init_residual = false;
  /// In training each block whose input and output have one shape is skipped with this probability
  /// (nn/layer_drop.h), the same blocks on every rank that has this seed. Above 0 the state has an
  /// entry that torchvision's has not: "layer_drop.forwards". A skipped block's parameters get no
  /// gradient in that backward.
  double layer_drop = 0;
  uint64_t layer_drop_seed = 0;
};

/// A shortcut that changes the shape is a 1x1 convolution with normalisation (the paper's type B),
/// in the CIFAR forms too. Convolutions start from kaiming_normal over fan_out, the classifier as
/// PyTorch's Linear.
class ResNet final : public Layer {
 public:
  /// Throws ArgumentError for sizes that are not positive and for layer_drop outside [0, 1).
  ResNet(const ResNetArchitecture& architecture, const ResNetOptions& options, Generator& rng);

  /// Logits [N, classes] from images [N, H, W, in_channels].
  Variable forward(const Variable& images) override;

 private:
  struct Stage {
    std::unique_ptr<Sequential> blocks;
    bool first_keeps_shape;  // the others do
  };

  ResNetStem stem_;
  Conv2d conv1_;
  BatchNorm2d bn1_;
  std::vector<Stage> stages_;
  std::unique_ptr<Linear> fc_;
  std::unique_ptr<LayerDrop> layer_drop_;  // null: off
};

/// "resnet18", "resnet34", "resnet50", "resnet101", "resnet152" (ImageNet's form: four stages of 64
/// to 512 channels) and "resnet8", "resnet20", "resnet32", "resnet56" (the paper's section 4.2 for
/// CIFAR-10: three stages of 16, 32 and 64). Throws ArgumentError that lists the names for any
/// other.
ResNetArchitecture resnet_architecture(const std::string& name);
std::vector<std::string> resnet_names();

/// resnet_architecture(name) with these options.
std::unique_ptr<ResNet> make_resnet(const std::string& name, const ResNetOptions& options,
                                    Generator& rng);

}  // namespace lockstep
