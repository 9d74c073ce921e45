// Residual networks (He et al., "Deep residual learning for image recognition", CVPR 2016) with
// torchvision's parameter names: "layer1.0.conv1.weight", "layer2.0.downsample.0.weight",
// "fc.bias".
#pragma once

#include "lockstep/nn/batch_norm.h"
#include "lockstep/nn/conv.h"
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
};

/// A shortcut that changes the shape is a 1x1 convolution with normalisation (the paper's type B),
/// in the CIFAR forms too. Convolutions start from kaiming_normal over fan_out, the classifier as
/// PyTorch's Linear.
class ResNet final : public Layer {
 public:
  /// Throws ArgumentError for sizes that are not positive.
  ResNet(const ResNetArchitecture& architecture, const ResNetOptions& options, Generator& rng);

  /// Logits [N, classes] from images [N, H, W, in_channels].
  Variable forward(const Variable& images) override;

 private:
  ResNetStem stem_;
  Conv2d conv1_;
  BatchNorm2d bn1_;
  std::vector<std::unique_ptr<Sequential>> stages_;
  std::unique_ptr<Linear> fc_;
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
