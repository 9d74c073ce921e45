// A small model under Autocast beside PyTorch's autocast (tests/golden/make_autocast.py), both
// against f64.
#include "lockstep/autograd/autocast.h"
#include "lockstep/autograd/ops/activation.h"
#include "lockstep/autograd/ops/elementwise.h"
#include "lockstep/autograd/ops/layout.h"
#include "lockstep/autograd/ops/loss.h"
#include "lockstep/autograd/ops/reduce.h"
#include "lockstep/io/safetensors.h"
#include "lockstep/nn/nn.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>

#include <string>

namespace lockstep {
namespace {

using testing::relative_difference;

struct Net : Module {
  Generator rng{1};
  Conv2d conv1{{.in_channels = 3, .out_channels = 16, .kernel = 3, .padding = 1, .bias = false},
               rng};
  BatchNorm2d bn1{{.channels = 16}};
  Conv2d conv2{{.in_channels = 16, .out_channels = 32, .kernel = 3, .stride = 2, .padding = 1},
               rng};
  BatchNorm2d bn2{{.channels = 32}};
  LayerNorm norm1{{.normalized = {32}}};
  Linear up{{.in_features = 32, .out_features = 64}, rng};
  Linear down{{.in_features = 64, .out_features = 32}, rng};
  LayerNorm norm2{{.normalized = {32}}};
  Linear fc{{.in_features = 32, .out_features = 5}, rng};

  Net() {
    register_module("conv1", conv1), register_module("bn1", bn1);
    register_module("conv2", conv2), register_module("bn2", bn2);
    register_module("norm1", norm1), register_module("up", up), register_module("down", down);
    register_module("norm2", norm2), register_module("fc", fc);
  }
  Variable forward(const Variable& images) {
    Variable y = bn2.forward_relu(conv2(bn1.forward_relu(conv1(images))));
    y = norm1.forward(flatten_positions(y));
    y = norm2.forward(y + down(gelu(up(y))));
    return fc(mean(y, {1}, false));
  }
  static Variable flatten_positions(const Variable& y) {
    return reshape(y, {y.dim(0), -1, y.dim(3)});
  }
};

TEST_CASE("mixed precision is as near to f64 as PyTorch's, for the loss and every gradient") {
  const TensorFile golden = read_safetensors("tests/golden/autocast.safetensors");
  Net net;
  for (NamedParameter& p : net.named_parameters()) {
    p.parameter.mutable_data() = golden.at("before." + p.name);
  }
  Variable logits, loss;
  {
    const Autocast mixed(DType::kBF16);
    logits = net.forward(Variable(golden.at("images")));
    loss = cross_entropy(logits, golden.at("targets"));
  }
  loss.backward();
  CHECK(logits.dtype() == DType::kBF16);
  const auto check = [&](const std::string& name, const Tensor& mine) {
    CAPTURE(name);
    const Tensor& exact = golden.at("exact." + name);
    // Both round to 8 bits, at other places and in another order: twice as far is no error.
    const double theirs = relative_difference(golden.at("mixed." + name), exact);
    const double ours = relative_difference(mine, exact);
    CHECK(ours <= 2 * theirs + 1e-3);
    CHECK(ours > 0);
  };
  check("logits", logits.data());
  check("loss", loss.data());
  for (const NamedParameter& p : net.named_parameters()) {
    REQUIRE(p.parameter.grad()->dtype() == DType::kF32);
    if (p.name == "conv2.bias") continue;  // batch normalisation takes it away: 0 but for rounding
    check("grad." + p.name, *p.parameter.grad());
  }
}

}  // namespace
}  // namespace lockstep
