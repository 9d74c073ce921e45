// Files in torchvision's format. The golden ones are state dicts as torchvision's users save them,
// and the logits that PyTorch computes from them (tests/golden/make_models.py).
#include "lockstep/models/resnet_exchange.h"

#include "lockstep/io/safetensors.h"
#include "lockstep/models/resnet.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tests/support/gradcheck.h"
#include "lockstep/tests/support/temp_dir.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>

namespace lockstep {
namespace {

using testing::random_tensor;
using testing::relative_difference;
using testing::TempDir;

struct Case {
  std::string name;
  ResNetArchitecture architecture;

  std::string weights() const { return str("tests/golden/", name, "_torchvision.safetensors"); }
  TensorFile values() const { return read_safetensors(str("tests/golden/", name, ".safetensors")); }
};

std::vector<Case> cases() {
  return {
      {"resnet_basic", {ResNetBlock::kBasic, {1, 1, 1}, {4, 6, 8}, ResNetStem::kCifar}},
      {"resnet_bottleneck", {ResNetBlock::kBottleneck, {1, 1}, {4, 6}, ResNetStem::kCifar}},
  };
}

bool same(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::memcmp(a.raw(), b.raw(), a.nbytes()) == 0;
}

TEST_CASE("torchvision's weights give PyTorch's logits") {
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    Generator rng(0);
    ResNet model(c.architecture, {.classes = 5}, rng);
    const ImportReport report = import_resnet(model, c.weights());
    CHECK(report.loaded.size() == model.state_dict().size());
    model.eval();
    const TensorFile golden = c.values();
    const Variable logits = model(Variable(golden.at("images")));
    CHECK(relative_difference(logits.data(), golden.at("eval_logits")) <= 1e-5);
  }
}

TEST_CASE("what is imported and exported again is the same to the bit") {
  for (const Case& c : cases()) {
    CAPTURE(c.name);
    const TempDir dir;
    Generator rng(0);
    ResNet model(c.architecture, {.classes = 5}, rng);
    // A count that a fresh model has not.
    TensorFile before = read_safetensors(c.weights());
    for (NamedTensor& entry : before.tensors) {
      if (entry.name == "bn1.num_batches_tracked") ops::fill(entry.tensor, 41);
    }
    write_safetensors(dir / "in", before.tensors);
    import_resnet(model, dir / "in");
    export_resnet(dir / "out", model.state_dict(), "small");
    const TensorFile after = read_safetensors(dir / "out");
    CHECK(after.metadata == Metadata{{"format", "pt"}, {"model", "small"}});
    CHECK(after.tensors.size() == before.tensors.size());
    for (const auto& [name, tensor] : before.tensors) {
      CAPTURE(name);
      CHECK(same(after.at(name), tensor));
    }
  }
}

TEST_CASE("f16, bf16 and f64 files are converted; f64 models get f64 values") {
  const Case c = cases()[0];
  const TempDir dir;
  const TensorFile weights = read_safetensors(c.weights());
  for (const auto& [dtype, tolerance] :
       {std::pair{DType::kF16, 1e-2}, {DType::kBF16, 1e-1}, {DType::kF64, 1e-5}}) {
    CAPTURE(name_of(dtype));
    std::vector<NamedTensor> cast;
    for (const auto& [name, t] : weights.tensors) {
      cast.push_back({name, is_floating(t.dtype()) ? ops::cast(t, dtype) : t});
    }
    write_safetensors(dir / "cast", cast);
    Generator rng(0);
    ResNet model(c.architecture, {.classes = 5}, rng);
    import_resnet(model, dir / "cast");
    for (const auto& [name, tensor] : to_torchvision(model.state_dict())) {
      const Tensor& written = TensorFile{cast, {}, "cast"}.at(name);
      CHECK(same(tensor, is_floating(written.dtype()) ? ops::cast(written, DType::kF32) : written));
    }
    model.eval();
    const TensorFile golden = c.values();
    CHECK(relative_difference(model(Variable(golden.at("images"))).data(),
                              golden.at("eval_logits")) <= tolerance);
  }
  Generator rng(0);
  ResNet model(c.architecture, {.classes = 5}, rng);
  model.to(DType::kF64);
  const Tensor third = ops::full({5}, 1.0 / 3, DType::kF64);
  std::vector<NamedTensor> precise = weights.tensors;
  for (NamedTensor& entry : precise) {
    if (entry.name == "fc.bias") entry.tensor = third;
  }
  write_safetensors(dir / "f64", precise);
  import_resnet(model, dir / "f64");
  CHECK(same(TensorFile{model.state_dict(), {}, ""}.at("fc.bias"), third));
}

TEST_CASE("strict: missing, unexpected and other shapes are told, and nothing is changed") {
  const Case c = cases()[0];
  const TempDir dir;
  TensorFile file = read_safetensors(c.weights());
  std::erase_if(file.tensors, [](const NamedTensor& t) { return t.name == "bn1.running_var"; });
  file.tensors.push_back({"head.weight", Tensor::zeros({2}, DType::kF32)});
  write_safetensors(dir / "wrong", file.tensors);
  Generator rng(0);
  ResNet model(c.architecture, {.classes = 7}, rng);
  const Tensor before = ops::clone(model.state_dict()[0].tensor);
  for (const char* words :
       {"wrong: load_state_dict: ", "1 missing (bn1.running_var)", "1 unexpected (head.weight)",
        "fc.weight: wanted [7, 8], got [5, 8]", "fc.bias: wanted [7], got [5]"}) {
    CHECK_THROWS_WITH_AS(import_resnet(model, dir / "wrong"), doctest::Contains(words),
                         ArgumentError);
  }
  CHECK(same(model.state_dict()[0].tensor, before));

  const ImportReport report = import_resnet(model, dir / "wrong", {.strict = false});
  CHECK(report.missing == std::vector<std::string>{"bn1.running_var"});
  CHECK(report.unexpected == std::vector<std::string>{"head.weight"});
  CHECK(report.other_shape.size() == 2);
  CHECK(report.loaded.size() + 3 == model.state_dict().size());
  CHECK(report.text().find("fc.bias: wanted f32 [7], got f32 [5]") != std::string::npos);
  CHECK(!same(model.state_dict()[0].tensor, before));
}

TEST_CASE("partial with nothing that fits, and what is no file, are refused") {
  const TempDir dir;
  Generator rng(0);
  ResNet model(cases()[0].architecture, {.classes = 5}, rng);
  write_safetensors(dir / "other",
                    std::vector<NamedTensor>{{"w", Tensor::zeros({2}, DType::kF32)}});
  CHECK_THROWS_WITH_AS(import_resnet(model, dir / "other", {.strict = false}),
                       doctest::Contains("0 of "), ArgumentError);
  testing::write_file(dir / "text", "no tensors here");
  CHECK_THROWS_AS(import_resnet(model, dir / "text"), IoError);
}

TEST_CASE("a model with layer_drop exchanges what torchvision has") {
  const Case c = cases()[0];
  const TempDir dir;
  Generator rng(0);
  ResNet model(c.architecture, {.classes = 5, .layer_drop = 0.5}, rng);
  CHECK(import_resnet(model, c.weights()).missing.empty());
  export_resnet(dir / "out", model.state_dict(), "small");
  CHECK(read_safetensors(dir / "out").tensors.size() ==
        read_safetensors(c.weights()).tensors.size());
}

}  // namespace
}  // namespace lockstep
