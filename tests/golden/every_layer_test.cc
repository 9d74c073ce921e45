// No layer without PyTorch's values and a gradient check: each class of nn/*.h is in the table
// below or in the list of those that are tested elsewhere (tests/golden/layers.py).
#include "lockstep/nn/nn.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tests/support/declared.h"
#include "lockstep/tests/support/golden.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>

namespace lockstep {
namespace {

using X = std::vector<Variable>;
Generator rng{1};

/// forward of a layer whose parameters are the inputs from the second on.
template <class L>
Variable with_parameters(L& layer, const X& x) {
  layer.weight = x[1];
  if (x.size() > 2) layer.bias = x[2];
  return layer.forward(x[0]);
}

Variable batch_norm_layer(const X& x, bool training) {
  BatchNorm2d layer({.channels = 3, .eps = 1e-3});
  layer.to(x[0].data().dtype());
  layer.train(training);
  return with_parameters(layer, x);
}

Variable linear_layer(const X& x) {
  Linear layer({.in_features = 5, .out_features = 3, .bias = x.size() > 2}, rng);
  return with_parameters(layer, x);
}

Variable sequential(const X& x) {
  Sequential body;
  auto& first = body.add<Linear>(LinearSpec{.in_features = 5, .out_features = 6}, rng);
  body.add<Tanh>();
  auto& last = body.add<Linear>(LinearSpec{.in_features = 6, .out_features = 2}, rng);
  first.weight = x[1];
  first.bias = x[2];
  last.weight = x[3];
  last.bias = x[4];
  return body.forward(x[0]);
}

Variable embedding_layer(const X& x, const Tensor& ids, int64_t padding_idx) {
  Embedding layer({.num_embeddings = 7, .embedding_dim = 4, .padding_idx = padding_idx}, rng);
  layer.weight = x[0];
  return layer(ids);
}

const Pool2dOptions kPool{.kernel = {3, 2}, .stride = {2, 1}, .padding = {1, 0}};

/// Tensors of a case that have no gradient, in the dtype of the inputs.
using Extra = std::function<Tensor(const char*)>;
using Fn = std::function<Variable(const X&, const Extra&)>;

/// Cases of one class begin with its name.
const std::map<std::string, Fn> kCases = {
    {"Linear", [](const X& x, const Extra&) { return linear_layer(x); }},
    {"Linear_no_bias", [](const X& x, const Extra&) { return linear_layer(x); }},
    {"Conv2d",
     [](const X& x, const Extra&) {
       Conv2d layer({.in_channels = 4,
                     .out_channels = 6,
                     .kernel = {3, 2},
                     .stride = {2, 1},
                     .padding = {1, 0},
                     .dilation = {1, 2},
                     .groups = 2},
                    rng);
       return with_parameters(layer, x);
     }},
    {"BatchNorm2d", [](const X& x, const Extra&) { return batch_norm_layer(x, true); }},
    {"BatchNorm2d_eval", [](const X& x, const Extra&) { return batch_norm_layer(x, false); }},
    {"LayerNorm",
     [](const X& x, const Extra&) {
       LayerNorm layer({.normalized = {3, 4}, .eps = 1e-3});
       return with_parameters(layer, x);
     }},
    {"LayerNorm_no_bias",
     [](const X& x, const Extra&) {
       LayerNorm layer({.normalized = {6}, .bias = false});
       return with_parameters(layer, x);
     }},
    {"LayerNorm_plain",
     [](const X& x, const Extra&) {
       return LayerNorm({.normalized = {6}, .affine = false}).forward(x[0]);
     }},
    {"GroupNorm",
     [](const X& x, const Extra&) {
       GroupNorm layer({.groups = 2, .channels = 6, .eps = 1e-3});
       return with_parameters(layer, x);
     }},
    {"ReLU", [](const X& x, const Extra&) { return ReLU().forward(x[0]); }},
    {"GELU", [](const X& x, const Extra&) { return GELU().forward(x[0]); }},
    {"GELU_tanh",
     [](const X& x, const Extra&) { return GELU(GeluApproximation::kTanh).forward(x[0]); }},
    {"Sigmoid", [](const X& x, const Extra&) { return Sigmoid().forward(x[0]); }},
    {"Tanh", [](const X& x, const Extra&) { return Tanh().forward(x[0]); }},
    {"SiLU", [](const X& x, const Extra&) { return SiLU().forward(x[0]); }},
    {"MaxPool2d", [](const X& x, const Extra&) { return MaxPool2d(kPool).forward(x[0]); }},
    {"AvgPool2d", [](const X& x, const Extra&) { return AvgPool2d(kPool).forward(x[0]); }},
    {"GlobalAvgPool2d", [](const X& x, const Extra&) { return GlobalAvgPool2d().forward(x[0]); }},
    {"Flatten", [](const X& x, const Extra&) { return Flatten().forward(x[0]); }},
    {"Dropout_eval",
     [](const X& x, const Extra&) {
       Dropout layer(0.5, rng);
       layer.eval();
       return layer.forward(x[0]);
     }},
    {"Sequential", [](const X& x, const Extra&) { return sequential(x); }},
    {"Embedding",
     [](const X& x, const Extra& extra) { return embedding_layer(x, extra("ids"), -1); }},
    {"Embedding_padding",
     [](const X& x, const Extra& extra) { return embedding_layer(x, extra("ids"), 2); }},
    {"CrossEntropyLoss",
     [](const X& x, const Extra& extra) {
       return CrossEntropyLoss({.ignore_index = 0, .label_smoothing = 0.1})(x[0], extra("targets"));
     }},
    {"NLLLoss",
     [](const X& x, const Extra& extra) {
       return NLLLoss({.ignore_index = 0, .reduction = Reduction::kSum})(x[0], extra("targets"));
     }},
    {"MSELoss", [](const X& x, const Extra&) { return MSELoss(Reduction::kSum)(x[0], x[1]); }},
    {"BCEWithLogitsLoss",
     [](const X& x, const Extra& extra) {
       return BCEWithLogitsLoss({.pos_weight = extra("pos_weight")})(x[0], extra("targets"));
     }},
    {"CosineEmbeddingLoss",
     [](const X& x, const Extra& extra) {
       return CosineEmbeddingLoss({.margin = -0.2})(x[0], x[1], extra("labels"));
     }},
};

/// MultiheadAttention: layers_golden_test.cc, and its gradients tests/autograd/attention_test.cc.
/// LayerDrop computes nothing.
const std::set<std::string> kElsewhere = {"MultiheadAttention", "LayerDrop"};

TEST_CASE("every layer equals PyTorch's, and its gradient central differences") {
  const TensorFile file = read_safetensors("tests/golden/layers.safetensors");
  size_t results = 0;
  for (const auto& [name, tensor] : file.tensors) results += name.ends_with(".result");
  CHECK(results == kCases.size());
  for (const auto& entry : kCases) {
    const std::string& name = entry.first;
    CAPTURE(name);
    const auto call = [&](const X& x) {
      return entry.second(x, [&](const char* what) {
        const Tensor& extra = file.at(name + "." + what);
        return is_floating(extra.dtype()) ? ops::cast(extra, x[0].data().dtype()) : extra;
      });
    };
    CHECK(testing::check_golden(file, name, call) == "");
    std::vector<Tensor> inputs;
    while (const Tensor* input = file.find(str(name, ".input", inputs.size()))) {
      inputs.push_back(ops::cast(*input, DType::kF64));
    }
    if (name == "Embedding_padding") continue;  // whose row has no gradient, on purpose
    CHECK(testing::gradcheck(call, inputs, {.step = 1e-5}) == "");
  }
}

TEST_CASE("no layer is missing from the table") {
  const auto declared = testing::declared("nn", R"(class (\w+) final : public (?:Layer|Module))");
  CHECK(declared.size() > 20);
  for (const std::string& layer : declared) {
    const bool tested = std::any_of(kCases.begin(), kCases.end(), [&](const auto& c) {
      return c.first == layer || c.first.starts_with(layer + "_");
    });
    CHECK_MESSAGE((tested || kElsewhere.contains(layer)), layer);
  }
}

}  // namespace
}  // namespace lockstep
