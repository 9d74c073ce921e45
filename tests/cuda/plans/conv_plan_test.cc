// cuDNN has a plan for every convolution of the ResNets on an H200, made on a machine without one.
#include "lockstep/tensor/cuda/cudnn/conv_plan.h"

#include "lockstep/models/resnet.h"
#include "lockstep/tests/cuda/plans/device.h"

#include <doctest/doctest.h>

#include <set>
#include <string>
#include <vector>

namespace lockstep {
namespace {

using namespace cuda;
using testing::h200;

struct Convolution {
  std::string name;
  Shape x, weight, y;
  Conv2dOptions options;
};

/// The convolutions of a named ResNet on `batch` images of 224 x 224. A model's parameters come in
/// the order in which its forward uses them, but that a block's shortcut comes last; paddings and
/// strides are resnet.cc's: half the kernel, and 2 in the stem and where a stage but the first one
/// begins, in a block's first 3x3.
std::vector<Convolution> convolutions_of(const std::string& model, int64_t batch) {
  Generator rng(1);
  const ResNetArchitecture architecture = resnet_architecture(model);
  ResNet net(architecture, {}, rng);
  const std::string strided =
      architecture.block == ResNetBlock::kBasic ? "conv1.weight" : "conv2.weight";
  std::vector<Convolution> all;
  int64_t side = 224, block_side = 0;
  for (const auto& [name, parameter] : net.named_parameters()) {
    const Shape weight = parameter.data().shape();
    if (weight.ndim() != 4) continue;
    const bool stem = name == "conv1.weight";
    const bool shortcut = name.find("downsample") != std::string::npos;
    const bool stage_begins = name.find(".0.") != std::string::npos && name[5] != '1';
    if (!stem && !shortcut && name.ends_with(".conv1.weight")) block_side = side;
    const int64_t in = shortcut ? block_side : side;
    const int64_t stride = stem || (stage_begins && (shortcut || name.ends_with(strided))) ? 2 : 1;
    const int64_t padding = weight[1] / 2;
    const int64_t out = (in + 2 * padding - weight[1]) / stride + 1;
    all.push_back({name,
                   {batch, in, in, weight[3]},
                   weight,
                   {batch, out, out, weight[0]},
                   {.stride = {stride, stride}, .padding = {padding, padding}}});
    if (!shortcut) side = stem ? out / 2 : out;  // the stem's pooling halves once more
  }
  REQUIRE(side == 7);
  return all;
}

std::string refusal(const Convolution& c, ConvPass pass, DType dtype, bool tf32, bool accumulate) {
  std::string why;
  const auto plans = plan_convolution({.pass = pass,
                                       .dtype = dtype,
                                       .accumulate = accumulate,
                                       .tf32 = tf32,
                                       .x = c.x,
                                       .weight = c.weight,
                                       .y = c.y,
                                       .options = c.options},
                                      {.device = &h200()}, {}, &why);
  CHECK(plans.size() <= 1);
  return plans.empty() ? why : "";
}

void check_all(const char* model, size_t wanted, DType dtype, bool tf32) {
  const auto all = convolutions_of(model, 256);
  CHECK(all.size() == wanted);
  for (const Convolution& c : all) {
    for (const ConvPass pass : {ConvPass::kForward, ConvPass::kData, ConvPass::kWeight}) {
      for (const bool accumulate : {false, true}) {
        INFO(model, " ", c.name, ", pass ", static_cast<int>(pass), ", accumulate ", accumulate);
        CHECK(refusal(c, pass, dtype, tf32, accumulate) == "");
      }
    }
  }
}

TEST_CASE("a plan for every convolution of ResNet-18 and ResNet-50 in bf16") {
  check_all("resnet18", 20, DType::kBF16, false);
  check_all("resnet50", 53, DType::kBF16, false);
}

TEST_CASE("a plan for every convolution of ResNet-18 and ResNet-50 in TF32") {
  check_all("resnet18", 20, DType::kF32, true);
  check_all("resnet50", 53, DType::kF32, true);
}

TEST_CASE("a plan for every convolution of ResNet-18 and ResNet-50 in f32 that nothing rounds") {
  check_all("resnet18", 20, DType::kF32, false);
  check_all("resnet50", 53, DType::kF32, false);
}

TEST_CASE("no plan for a result of the wrong size") {
  Convolution c{"", {8, 56, 56, 64}, {64, 3, 3, 64}, {8, 56, 56, 64}, {.padding = {1, 1}}};
  CHECK(refusal(c, ConvPass::kForward, DType::kBF16, false, false) == "");
  c.y = {8, 57, 56, 64};
  CHECK(refusal(c, ConvPass::kForward, DType::kBF16, false, false) != "");
}

TEST_CASE("the best few plans have names of their own, by which each is found again") {
  for (const ConvPass pass : {ConvPass::kForward, ConvPass::kData, ConvPass::kWeight}) {
    const ConvProblem problem{.pass = pass,
                              .dtype = DType::kBF16,
                              .x = {256, 56, 56, 64},
                              .weight = {64, 3, 3, 64},
                              .y = {256, 56, 56, 64},
                              .options = {.padding = {1, 1}}};
    const PlanTarget target{.device = &h200()};
    const auto few = plan_convolution(problem, target, {.most = kMostTimed});
    INFO("pass ", static_cast<int>(pass));
    CHECK(few.size() == kMostTimed);
    std::set<std::string> names;
    for (const auto& plan : few) {
      names.insert(plan->name());
      const auto again = plan_convolution(problem, target, {.name = plan->name()});
      REQUIRE(again.size() == 1);
      CHECK(again[0]->name() == plan->name());
      CHECK(again[0]->workspace_bytes() == plan->workspace_bytes());
    }
    CHECK(names.size() == few.size());
    const auto first = plan_convolution(problem, target);
    REQUIRE(first.size() == 1);
    CHECK(first[0]->name() == few[0]->name());
    CHECK(plan_convolution(problem, target, {.name = "no such engine"}).empty());
  }
}

}  // namespace
}  // namespace lockstep
