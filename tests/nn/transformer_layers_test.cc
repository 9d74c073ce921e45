// Embedding, layer and group normalisation, attention and the losses as modules.
#include "lockstep/autograd/checkpoint.h"
#include "lockstep/autograd/ops/elementwise.h"
#include "lockstep/autograd/ops/reduce.h"
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

Variable input(const Shape& shape) { return Variable(random_tensor(shape, 5, -1, 1, DType::kF32)); }

std::string names_of(const Module& module) {
  std::string names;
  for (const auto& [name, parameter] : module.named_parameters())
    names += name + " " + parameter.shape().to_string() + ";";
  return names;
}

double deviation(const Tensor& x) {
  double square = 0;
  for (float v : x.to_vector<float>()) square += static_cast<double>(v) * static_cast<double>(v);
  return std::sqrt(square / static_cast<double>(x.numel()));
}

TEST_CASE("Embedding: rows, initial values, padding") {
  Generator rng(1);
  Embedding layer({.num_embeddings = 50, .embedding_dim = 40, .padding_idx = 3}, rng);
  CHECK(names_of(layer) == "weight [50, 40];");
  // 1,960 normal numbers: within five standard errors of 1.
  CHECK(deviation(layer.weight.data()) == doctest::Approx(std::sqrt(49.0 / 50)).epsilon(0.08));
  const Variable y = layer(Tensor::from<int64_t>({3, 7, 3, 0}, {2, 2}));
  CHECK(y.shape() == Shape{2, 2, 40});
  CHECK(y.data().data<float>()[0] == 0);
  CHECK(y.data().data<float>()[40] == layer.weight.data().data<float>()[7 * 40]);
  sum(y).backward();
  CHECK(layer.weight.grad()->data<float>()[3 * 40] == 0);
  CHECK(layer.weight.grad()->data<float>()[7 * 40] == 1);
  CHECK_THROWS_AS(Embedding({.num_embeddings = 0, .embedding_dim = 4}, rng), ArgumentError);
  CHECK_THROWS_AS(Embedding({.num_embeddings = 4, .embedding_dim = 4, .padding_idx = 4}, rng),
                  ArgumentError);
}

TEST_CASE("LayerNorm and GroupNorm: names, options, values") {
  LayerNorm layer({.normalized = {4, 6}});
  CHECK(names_of(layer) == "weight [4, 6];bias [4, 6];");
  CHECK(names_of(LayerNorm({.normalized = {6}, .bias = false})) == "weight [6];");
  CHECK(names_of(LayerNorm({.normalized = {6}, .affine = false})).empty());
  const Variable x = input({3, 4, 6});
  CHECK(relative_difference(layer(x).data(), layer_norm(x, {4, 6}).data()) == 0);
  ops::fill(layer.bias.mutable_data(), 2);
  ops::fill(layer.weight.mutable_data(), 0);
  CHECK(layer(x).data().to_vector<float>() == std::vector<float>(72, 2));
  // With a sum and dropout before it: in training and in evaluation as the layers one by one.
  const Variable residual = scale(input({3, 4, 6}), -0.5);
  LayerNorm norm({.normalized = {6}, .eps = 0.1});
  for (const bool training : {true, false}) {
    Generator one(5), other(5);
    Dropout fused(0.5, one), alone(0.5, other);
    for (Dropout* dropout : {&fused, &alone}) dropout->train(training);
    CHECK(relative_difference(norm.forward(x, residual, fused).data(),
                              norm(alone(x) + residual).data()) == 0);
    CHECK(one.state() == other.state());
  }
  GroupNorm group({.groups = 2, .channels = 6});
  CHECK(names_of(group) == "weight [6];bias [6];");
  CHECK(relative_difference(group(x).data(), group_norm(x, 2).data()) == 0);
  CHECK_THROWS_AS(group(input({3, 4})), ArgumentError);
  CHECK_THROWS_AS(GroupNorm({.groups = 4, .channels = 6}), ArgumentError);
  CHECK_THROWS_AS(LayerNorm({.normalized = {}}), ArgumentError);
}

TEST_CASE("activation layers call their functions") {
  const Variable x = input({30});
  CHECK(relative_difference(GELU()(x).data(), gelu(x).data()) == 0);
  const Variable approximate = gelu(x, GeluApproximation::kTanh);
  CHECK(relative_difference(GELU(GeluApproximation::kTanh)(x).data(), approximate.data()) == 0);
  CHECK(relative_difference(approximate.data(), gelu(x).data()) > 0);
  CHECK(relative_difference(Sigmoid()(x).data(), sigmoid(x).data()) == 0);
  CHECK(relative_difference(Tanh()(x).data(), tanh(x).data()) == 0);
  CHECK(relative_difference(SiLU()(x).data(), silu(x).data()) == 0);
}

TEST_CASE("loss layers pass their options on") {
  const Variable x = input({3, 4});
  const Tensor y = ops::full({3, 4}, 0.5, DType::kF32);
  const Tensor labels = Tensor::from<int64_t>({1, -1, -1}, {3});
  const Tensor classes = Tensor::from<int64_t>({1, 2, 3}, {3});
  const auto item = [](const Variable& loss) { return loss.data().item(); };
  CHECK(item(MSELoss(Reduction::kSum)(x, Variable(y))) ==
        item(mse_loss(x, Variable(y), Reduction::kSum)));
  CHECK(item(BCEWithLogitsLoss({.reduction = Reduction::kSum})(x, y)) ==
        item(bce_with_logits_loss(x, y, {.reduction = Reduction::kSum})));
  CHECK(item(CosineEmbeddingLoss({.margin = -0.5})(x, Variable(y), labels)) ==
        item(cosine_embedding_loss(x, Variable(y), labels, {.margin = -0.5})));
  CHECK(item(NLLLoss({.ignore_index = 2})(x, classes)) ==
        item(nll_loss(x, classes, {.ignore_index = 2})));
}

TEST_CASE("MultiheadAttention: PyTorch's names and initial values; one way and three agree") {
  Generator rng(1);
  MultiheadAttention layer({.embed_dim = 24, .num_heads = 4, .dropout = 0.5}, rng);
  CHECK(names_of(layer) ==
        "in_proj_weight [72, 24];in_proj_bias [72];out_proj.weight [24, 24];out_proj.bias [24];");
  CHECK(names_of(MultiheadAttention({.embed_dim = 24, .num_heads = 4, .bias = false}, rng)) ==
        "in_proj_weight [72, 24];out_proj.weight [24, 24];");
  const auto weights = layer.in_proj_weight.data().to_vector<float>();
  const double bound = std::sqrt(6.0 / 96);
  CHECK(*std::max_element(weights.begin(), weights.end()) == doctest::Approx(bound).epsilon(0.01));
  CHECK(deviation(layer.in_proj_bias.data()) == 0);
  CHECK(deviation(layer.out_proj.bias.data()) == 0);

  const Variable x = input({2, 5, 24});
  const Tensor dropped = layer(x).data();
  layer.eval();
  const Tensor y = layer(x).data();
  CHECK(relative_difference(dropped, y) > 0.01);
  CHECK(relative_difference(layer(x, x, x).data(), y) == 0);
  const Variable copy(ops::clone(x.data()));
  CHECK(relative_difference(layer(x, copy, copy).data(), y) < 1e-6);
  CHECK_THROWS_WITH_AS(layer(input({2, 5, 20})), doctest::Contains("[B, S, 24]"), ArgumentError);
  CHECK_THROWS_AS(MultiheadAttention({.embed_dim = 24, .num_heads = 5}, rng), ArgumentError);
  CHECK_THROWS_AS(MultiheadAttention({.embed_dim = 24, .num_heads = 4, .dropout = 1}, rng),
                  ArgumentError);
}

TEST_CASE("checkpoint: layers do not count a batch or a decision twice") {
  BatchNorm2d bn{{.channels = 3}};
  LayerDrop layers(0.5, 1);
  Variable x(random_tensor({4, 3}, 5, -1, 1, DType::kF32), true);
  const Variable y = checkpoint(
      [&](const std::vector<Variable>& v) {
        layers.begin_forward();
        return layers.drops(0) ? bn(v[0]) : bn(relu(v[0]));
      },
      {x});
  sum(y).backward();
  CHECK(bn.named_buffers()[2].buffer.item() == 1);
  CHECK(layers.named_buffers()[0].buffer.item() == 1);
}

}  // namespace
}  // namespace lockstep
