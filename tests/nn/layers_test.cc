#include "lockstep/nn/nn.h"

#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tests/support/gradcheck.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace lockstep {
namespace {

using testing::random_tensor;
using testing::relative_difference;

Variable image(const Shape& shape) { return Variable(random_tensor(shape, 5, -1, 1, DType::kF32)); }

TEST_CASE("Linear: names, shapes, values") {
  Generator rng(1);
  Linear fc{{.in_features = 3, .out_features = 2}, rng};
  const auto list = fc.named_parameters();
  REQUIRE(list.size() == 2);
  CHECK(list[0].name == "weight");
  CHECK(list[0].parameter.shape() == Shape{2, 3});
  CHECK(list[1].name == "bias");
  fc.weight.mutable_data() = Tensor::from<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  fc.bias.mutable_data() = Tensor::from<float>({10, 20}, {2});
  const Variable y = fc(Variable(Tensor::from<float>({1, 0, -1}, {1, 3})));
  CHECK(y.data().to_vector<float>() == std::vector<float>{8, 18});
  CHECK(Linear({.in_features = 3, .out_features = 2, .bias = false}, rng).parameters().size() == 1);
  CHECK_THROWS_AS(Linear({.in_features = 0, .out_features = 2}, rng), ArgumentError);
}

TEST_CASE("Conv2d: the options reach the op") {
  Generator rng(1);
  Conv2d conv{{.in_channels = 4,
               .out_channels = 6,
               .kernel = {3, 5},
               .stride = {2, 1},
               .padding = {1, 2},
               .dilation = {1, 2},
               .groups = 2},
              rng};
  CHECK(conv.weight.shape() == Shape{6, 3, 5, 2});
  CHECK(conv.bias.shape() == Shape{6});
  CHECK(conv(image({2, 8, 9, 4})).shape() == Shape{2, 4, 5, 6});
  CHECK(!Conv2d({.kernel = 3, .bias = false}, rng).bias.defined());
  CHECK_THROWS_AS(Conv2d({.in_channels = 3, .out_channels = 4, .groups = 2}, rng), ArgumentError);
  CHECK_THROWS_AS(Conv2d({.kernel = 0}, rng), ArgumentError);
}

TEST_CASE("BatchNorm2d: statistics move in training only, batches are counted") {
  BatchNorm2d bn{{.channels = 3}};
  const Variable x = image({4, 2, 2, 3});
  const auto buffers = bn.named_buffers();
  REQUIRE(buffers.size() == 3);
  CHECK(buffers[0].name == "running_mean");
  CHECK(buffers[1].name == "running_var");
  CHECK(buffers[2].name == "num_batches_tracked");
  bn.eval();
  CHECK(relative_difference(bn(x).data(), x.data()) < 1e-5);  // mean 0, variance 1, eps 1e-5
  CHECK(buffers[2].buffer.item() == 0);
  bn.train();
  const Variable y = bn(x);
  CHECK(relative_difference(y.data(), x.data()) > 0.01);
  CHECK(buffers[0].buffer.data<float>()[0] != 0);
  const Variable fused = bn.forward_relu(x, x);
  CHECK(buffers[2].buffer.item() == 2);
  const auto plain = y.data().to_vector<float>(), in = x.data().to_vector<float>();
  std::vector<float> expected;
  for (size_t i = 0; i < plain.size(); ++i) expected.push_back(std::max(plain[i] + in[i], 0.0f));
  CHECK(relative_difference(fused.data(), Tensor::from(expected, x.shape())) < 1e-6);
  CHECK_THROWS_AS(BatchNorm2d({.channels = 0}), ArgumentError);
}

TEST_CASE("Sequential: names, order, access") {
  Generator rng(1);
  Sequential body;
  body.add<Conv2d>(Conv2dSpec{.in_channels = 2, .out_channels = 3, .kernel = 3, .padding = 1}, rng);
  body.add<BatchNorm2d>(BatchNorm2dSpec{.channels = 3});
  body.add<ReLU>();
  body.add<MaxPool2d>(Pool2dOptions{});
  body.add<GlobalAvgPool2d>();
  Linear& fc = body.add<Linear>(LinearSpec{.in_features = 3, .out_features = 5}, rng);
  CHECK(body.size() == 6);
  CHECK(&body[5] == &fc);
  CHECK(body(image({2, 4, 4, 2})).shape() == Shape{2, 5});
  std::string names;
  for (const auto& [name, parameter] : body.named_parameters()) names += name + " ";
  CHECK(names == "0.weight 0.bias 1.weight 1.bias 5.weight 5.bias ");
  body.eval();
  CHECK(!body[1].training());
  CHECK_THROWS_AS(body.add(nullptr), ArgumentError);
}

/// Mean square and largest absolute value.
struct Spread {
  double square = 0, largest = 0;
  explicit Spread(const Tensor& t) {
    for (const float x : t.to_vector<float>()) {
      square += static_cast<double>(x) * x / static_cast<double>(t.numel());
      largest = std::max(largest, std::abs(static_cast<double>(x)));
    }
  }
};

// The mean square of n numbers is within a few times sqrt(2 / n) of the variance, relatively: 0.6 %
// for 73,728.
TEST_CASE("initial values have PyTorch's spread") {
  Generator rng(8);
  const Conv2dSpec spec{.in_channels = 64, .out_channels = 128, .kernel = 3};
  Conv2d conv{spec, rng};
  const double bound = 1 / std::sqrt(64.0 * 9);
  const Spread weight(conv.weight.data());
  CHECK(weight.largest <= bound);
  CHECK(weight.largest > 0.999 * bound);
  CHECK(weight.square == doctest::Approx(bound * bound / 3).epsilon(0.02));
  CHECK(Spread(conv.bias.data()).largest <= bound);
  CHECK(Spread(conv.bias.data()).largest > 0.9 * bound);

  Conv2dSpec kaiming = spec;
  kaiming.init = ConvInit::kKaimingNormalFanOut;
  CHECK(Spread(Conv2d(kaiming, rng).weight.data()).square ==
        doctest::Approx(2 / (128.0 * 9)).epsilon(0.02));

  Tensor wide = Tensor::empty({200, 100}, DType::kF32);
  init::kaiming_uniform(wide, rng, {.fan = init::Fan::kOut});
  CHECK(Spread(wide).square == doctest::Approx(2 / 200.0).epsilon(0.03));
  CHECK(Spread(wide).largest <= std::sqrt(6 / 200.0));
  CHECK(init::fan({8, 3, 3, 4}, init::Fan::kIn) == 36);
  CHECK(init::fan({8, 3, 3, 4}, init::Fan::kOut) == 72);
  CHECK_THROWS_AS(init::fan({8}, init::Fan::kIn), ArgumentError);
}

TEST_CASE("the same seed gives the same weights, another seed others") {
  const LinearSpec spec{.in_features = 10, .out_features = 10};
  Generator a(1), b(1), c(2);
  const Linear first(spec, a), second(spec, b), third(spec, c);
  CHECK(relative_difference(first.weight.data(), second.weight.data()) == 0);
  CHECK(relative_difference(first.weight.data(), third.weight.data()) > 0.1);
  const Linear next(spec, a);
  CHECK(relative_difference(first.weight.data(), next.weight.data()) > 0.1);
}

TEST_CASE("Dropout: training only, from the generator it was given; Flatten") {
  Generator rng(3);
  Dropout dropout(0.5, rng);
  const Variable x(ops::full({2, 10, 10, 1}, 1, DType::kF32));
  const auto y = dropout(x).data().to_vector<float>();
  const auto zeros = std::count(y.begin(), y.end(), 0.0f);
  CHECK(zeros > 70);  // 200 draws: 100 +- 7
  CHECK(zeros < 130);
  CHECK(std::count(y.begin(), y.end(), 2.0f) == 200 - zeros);
  CHECK(rng.state().next_block == 50);
  CHECK(dropout(x).data().to_vector<float>() != y);
  dropout.eval();
  CHECK(dropout(x).is(x));
  CHECK_THROWS_AS(Dropout(1.1, rng), ArgumentError);
  CHECK_THROWS_AS(Dropout(-0.1, rng), ArgumentError);
  CHECK(Flatten()(x).shape() == Shape{2, 100});
}

TEST_CASE("CrossEntropyLoss: the options reach the op") {
  const Variable logits(Tensor::zeros({2, 4}, DType::kF32));
  const Tensor targets = Tensor::from<int64_t>({3, -1}, {2});
  CHECK_THROWS_AS(CrossEntropyLoss()(logits, targets), ArgumentError);
  const CrossEntropyLoss loss({.ignore_index = -1, .reduction = Reduction::kSum});
  CHECK(loss(logits, targets).data().item() == doctest::Approx(std::log(4)));
}

/// A model of one's own, as in examples/minimal.
struct Net : Module {
  Generator rng{1};
  Conv2d conv{{.in_channels = 1, .out_channels = 4, .kernel = 3, .padding = 1, .bias = false}, rng};
  BatchNorm2d bn{{.channels = 4}};
  Linear fc{{.in_features = 4, .out_features = 3}, rng};
  Net() {
    register_module("conv", conv);
    register_module("bn", bn);
    register_module("fc", fc);
  }
  Variable forward(const Variable& x) { return fc(global_avg_pool2d(bn.forward_relu(conv(x)))); }
};

TEST_CASE("a model of one's own") {
  Net net;
  const Variable y = net.forward(image({2, 5, 5, 1}));
  CHECK(y.shape() == Shape{2, 3});
  y.backward(ops::full(y.shape(), 1, DType::kF32));
  for (const auto& [name, parameter] : net.named_parameters()) {
    CAPTURE(name);
    CHECK(parameter.grad());
  }
  net.zero_grad();
  CHECK(!net.fc.weight.grad());
}

}  // namespace
}  // namespace lockstep
