#include "lockstep/models/resnet.h"

#include "lockstep/io/safetensors.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>

#include <fstream>
#include <string>
#include <vector>

namespace lockstep {
namespace {

using testing::random_tensor;
using testing::relative_difference;

int64_t parameter_count(const Module& model) {
  int64_t count = 0;
  for (const Variable& p : model.parameters()) count += p.data().numel();
  return count;
}

// tests/golden/make_models.py writes, for each model, "name count" and then "key [shape]" for each
// entry.
TEST_CASE("names, shapes and counts equal torchvision's") {
  std::ifstream golden("tests/golden/resnet_names.txt");
  REQUIRE(golden.good());
  std::vector<NamedTensor> state;
  size_t next = 0;
  int models = 0;
  std::string line;
  while (std::getline(golden, line)) {
    if (line.starts_with("resnet")) {
      CHECK(next == state.size());
      const size_t space = line.find(' ');
      Generator rng(0);
      const auto model = make_resnet(line.substr(0, space), {}, rng);
      CHECK(std::to_string(parameter_count(*model)) == line.substr(space + 1));
      state = model->state_dict();
      next = 0;
      ++models;
    } else {
      REQUIRE(next < state.size());
      CHECK(str(state[next].name, " ", state[next].tensor.shape()) == line);
      ++next;
    }
  }
  CHECK(next == state.size());
  CHECK(models == 5);
}

TEST_CASE("the CIFAR forms: counts, shapes, options") {
  Generator rng(0);
  const auto resnet8 = make_resnet("resnet8", {.classes = 10, .in_channels = 1}, rng);
  CHECK(parameter_count(*resnet8) == 77754);
  CHECK(parameter_count(*make_resnet("resnet8", {.classes = 10}, rng)) == 78042);
  // The paper's table 6: 0.27 M, 0.46 M and 0.85 M.
  CHECK(parameter_count(*make_resnet("resnet20", {.classes = 10}, rng)) / 10000 == 27);
  CHECK(parameter_count(*make_resnet("resnet32", {.classes = 10}, rng)) / 10000 == 46);
  CHECK(parameter_count(*make_resnet("resnet56", {.classes = 10}, rng)) / 10000 == 85);
  const Variable digits(random_tensor({3, 8, 8, 1}, 1, 0, 1, DType::kF32));
  CHECK(resnet8->forward(digits).shape() == Shape{3, 10});

  const auto small = make_resnet("resnet18", {.classes = 10, .stem = ResNetStem::kCifar}, rng);
  CHECK(small->state_dict()[0].tensor.shape() == Shape{64, 3, 3, 3});
}

TEST_CASE("zero_init_residual: the last normalisation of every block starts at zero") {
  Generator rng(0);
  const auto model = make_resnet("resnet20", {.classes = 10, .zero_init_residual = true}, rng);
  int zeros = 0;
  for (const auto& [name, p] : model->named_parameters()) {
    if (!name.ends_with("bn2.weight")) continue;
    ++zeros;
    CHECK(p.data().to_vector<float>() ==
          std::vector<float>(static_cast<size_t>(p.data().numel()), 0));
  }
  CHECK(zeros == 9);
}

TEST_CASE("wrong names and sizes") {
  Generator rng(0);
  CHECK(resnet_names().size() == 9);
  CHECK_THROWS_WITH_AS(make_resnet("resnet19", {}, rng), doctest::Contains("resnet8, resnet20"),
                       ArgumentError);
  CHECK_THROWS_AS(make_resnet("resnet8", {.classes = 0}, rng), ArgumentError);
  CHECK_THROWS_AS(make_resnet("resnet8", {.in_channels = -1}, rng), ArgumentError);
  CHECK_THROWS_AS(ResNet({.blocks = {1, 1}, .widths = {4}}, {}, rng), ArgumentError);
  CHECK_THROWS_AS(ResNet({.blocks = {}, .widths = {}}, {}, rng), ArgumentError);
  CHECK_THROWS_AS(ResNet({.blocks = {0}, .widths = {4}}, {}, rng), ArgumentError);
}

/// Loads the golden weights; compares logits in evaluation and training, every gradient and every
/// running statistic.
void check_golden(const char* file, const ResNetArchitecture& architecture, DType dtype,
                  double tolerance) {
  CAPTURE(file);
  const TensorFile golden = read_safetensors(str("tests/golden/", file));
  Generator rng(0);
  ResNet model(architecture, {.classes = 5}, rng);
  model.to(dtype);
  std::vector<NamedTensor> before;
  for (const auto& [name, tensor] : golden.tensors) {
    if (name.starts_with("before.")) before.push_back({name.substr(7), tensor});
  }
  model.load_state_dict(before);
  const Variable images(ops::cast(golden.at("images"), dtype));
  model.eval();
  CHECK(relative_difference(model(images).data(), golden.at("eval_logits")) <= tolerance);
  model.train();
  const Variable logits = model(images);
  CHECK(relative_difference(logits.data(), golden.at("logits")) <= tolerance);
  logits.backward(ops::cast(golden.at("grad_logits"), dtype));
  for (const auto& [name, p] : model.named_parameters()) {
    CAPTURE(name);
    REQUIRE(p.grad());
    CHECK(relative_difference(*p.grad(), golden.at("grad." + name)) <= tolerance);
  }
  for (const auto& [name, buffer] : model.named_buffers()) {
    CAPTURE(name);
    CHECK(relative_difference(buffer, golden.at("after." + name)) <= tolerance);
  }
}

// The golden values are f64 results rounded to f32: 6e-8 is that rounding; 1e-5 is what f32 keeps
// through some ten layers of normalisation.
TEST_CASE("logits, gradients and running statistics equal PyTorch's") {
  const ResNetArchitecture basic{ResNetBlock::kBasic, {1, 1, 1}, {4, 6, 8}, ResNetStem::kCifar};
  const ResNetArchitecture bottleneck{ResNetBlock::kBottleneck, {1, 1}, {4, 6}, ResNetStem::kCifar};
  check_golden("resnet_basic.safetensors", basic, DType::kF64, 2e-7);
  check_golden("resnet_bottleneck.safetensors", bottleneck, DType::kF64, 2e-7);
  check_golden("resnet_basic.safetensors", basic, DType::kF32, 1e-5);
  check_golden("resnet_bottleneck.safetensors", bottleneck, DType::kF32, 1e-5);
}

}  // namespace
}  // namespace lockstep
