#include "lockstep/models/resnet.h"

#include "lockstep/autograd/ops/pool.h"
#include "lockstep/models/resnet_block.h"

namespace lockstep {
namespace {

struct Named {
  const char* name;
  ResNetArchitecture architecture;
};

const std::vector<Named>& catalogue() {
  using enum ResNetBlock;
  const std::vector<int64_t> wide{64, 128, 256, 512};
  const std::vector<int64_t> narrow{16, 32, 64};
  static const std::vector<Named> list{
      {"resnet8", {kBasic, {1, 1, 1}, narrow, ResNetStem::kCifar}},
      {"resnet20", {kBasic, {3, 3, 3}, narrow, ResNetStem::kCifar}},
      {"resnet32", {kBasic, {5, 5, 5}, narrow, ResNetStem::kCifar}},
      {"resnet56", {kBasic, {9, 9, 9}, narrow, ResNetStem::kCifar}},
      {"resnet18", {kBasic, {2, 2, 2, 2}, wide}},
      {"resnet34", {kBasic, {3, 4, 6, 3}, wide}},
      {"resnet50", {kBottleneck, {3, 4, 6, 3}, wide}},
      {"resnet101", {kBottleneck, {3, 4, 23, 3}, wide}},
      {"resnet152", {kBottleneck, {3, 8, 36, 3}, wide}},
  };
  return list;
}

/// The first width, which the stem needs before the stages are made.
int64_t checked_stem_width(const ResNetArchitecture& a, const ResNetOptions& options) {
  check(!a.blocks.empty() && a.blocks.size() == a.widths.size(),
        "ResNet: wanted one width for each stage and at least one stage, got ", a.widths.size(),
        " widths and ", a.blocks.size(), " stages");
  for (size_t i = 0; i < a.blocks.size(); ++i) {
    check(a.blocks[i] > 0 && a.widths[i] > 0, "ResNet: stage ", i + 1, " has ", a.blocks[i],
          " blocks of width ", a.widths[i]);
  }
  check(options.classes > 0 && options.in_channels > 0, "ResNet: wanted positive sizes, got ",
        options.classes, " classes and ", options.in_channels, " channels");
  return a.widths[0];
}

template <class Block>
std::unique_ptr<Sequential> make_stage(ResNetBlockSpec spec, int64_t blocks, Generator& rng) {
  auto stage = std::make_unique<Sequential>();
  for (int64_t i = 0; i < blocks; ++i) {
    stage->add<Block>(spec, rng);
    spec.in_channels = spec.width * Block::kExpansion;
    spec.stride = 1;
  }
  return stage;
}

}  // namespace

ResNet::ResNet(const ResNetArchitecture& a, const ResNetOptions& options, Generator& rng)
    : stem_(options.stem.value_or(a.stem)),
      conv1_(resnet_conv(options.in_channels, checked_stem_width(a, options),
                         stem_ == ResNetStem::kImageNet ? 7 : 3,
                         stem_ == ResNetStem::kImageNet ? 2 : 1),
             rng),
      bn1_({.channels = a.widths[0]}) {
  register_module("conv1", conv1_);
  register_module("bn1", bn1_);
  ResNetBlockSpec spec{.in_channels = a.widths[0],
                       .zero_init_residual = options.zero_init_residual};
  for (size_t i = 0; i < a.blocks.size(); ++i) {
    spec.width = a.widths[i];
    spec.stride = i == 0 ? 1 : 2;
    const bool basic = a.block == ResNetBlock::kBasic;
    const int64_t out = a.widths[i] * (basic ? BasicBlock::kExpansion : Bottleneck::kExpansion);
    stages_.push_back({basic ? make_stage<BasicBlock>(spec, a.blocks[i], rng)
                             : make_stage<Bottleneck>(spec, a.blocks[i], rng),
                       spec.stride == 1 && spec.in_channels == out});
    register_module(str("layer", i + 1), *stages_.back().blocks);
    spec.in_channels = out;
  }
  fc_ = std::make_unique<Linear>(
      LinearSpec{.in_features = spec.in_channels, .out_features = options.classes}, rng);
  register_module("fc", *fc_);
  if (options.layer_drop != 0) {
    layer_drop_ = std::make_unique<LayerDrop>(options.layer_drop, options.layer_drop_seed);
    register_module("layer_drop", *layer_drop_);
  }
}

Variable ResNet::forward(const Variable& images) {
  Variable y = bn1_.forward_relu(conv1_(images));
  if (stem_ == ResNetStem::kImageNet) {
    y = max_pool2d(y, {.kernel = {3, 3}, .stride = {2, 2}, .padding = {1, 1}});
  }
  if (layer_drop_) layer_drop_->begin_forward();
  int64_t number = 0;
  for (const Stage& stage : stages_) {
    for (size_t i = 0; i < stage.blocks->size(); ++i, ++number) {
      const bool keeps_shape = i > 0 || stage.first_keeps_shape;
      if (keeps_shape && layer_drop_ && layer_drop_->drops(number)) continue;
      y = (*stage.blocks)[i](y);
    }
  }
  return fc_->forward(global_avg_pool2d(y));
}

ResNetArchitecture resnet_architecture(const std::string& name) {
  for (const Named& entry : catalogue()) {
    if (name == entry.name) return entry.architecture;
  }
  std::string known;
  for (const Named& entry : catalogue()) known += str(known.empty() ? "" : ", ", entry.name);
  throw ArgumentError(str("resnet_architecture: no model is named ", name, "; there are ", known));
}

std::vector<std::string> resnet_names() {
  std::vector<std::string> names;
  for (const Named& entry : catalogue()) names.emplace_back(entry.name);
  return names;
}

std::unique_ptr<ResNet> make_resnet(const std::string& name, const ResNetOptions& options,
                                    Generator& rng) {
  return std::make_unique<ResNet>(resnet_architecture(name), options, rng);
}

}  // namespace lockstep
