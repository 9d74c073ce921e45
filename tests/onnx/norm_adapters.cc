// Normalisation and dropout.
#include "lockstep/autograd/ops/dropout.h"
#include "lockstep/autograd/ops/layout.h"
#include "lockstep/autograd/ops/norm.h"
#include "lockstep/nn/dropout.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tensor/ops/group_norm.h"
#include "lockstep/tensor/ops/norm.h"
#include "lockstep/tests/onnx/node.h"

#include <numeric>

namespace lockstep::testing {
namespace {

using Outputs = std::vector<Tensor>;

/// [N, C, ...] as [N, ..., C].
Variable channels_last(const Variable& x) {
  std::vector<int> dims{0};
  for (int i = 2; i < x.shape().ndim(); ++i) dims.push_back(i);
  dims.push_back(1);
  return permute(x, dims);
}
Tensor channels_first(const Variable& y) {
  std::vector<int> dims{0, y.shape().ndim() - 1};
  for (int i = 1; i + 1 < y.shape().ndim(); ++i) dims.push_back(i);
  return permute(y, dims).data();
}

Outputs batch_norm_adapter(const OnnxNode& n) {
  const Variable x = channels_last(n.var(0));
  const bool training = n.integer("training_mode", 0) != 0;
  const BatchNormOptions options{.training = training,
                                 .momentum = 1 - n.number("momentum", 0.9),
                                 .eps = n.number("epsilon", 1e-5)};
  const Tensor mean = ops::clone(n.tensor(3)), variance = ops::clone(n.tensor(4));
  Outputs outputs{channels_first(batch_norm(x, n.var(1), n.var(2), mean, variance, options))};
  if (!training) return outputs;
  // ONNX's running variance is made of biased ones, ours of unbiased ones.
  Tensor batch_mean = ops::clone(mean), biased = ops::clone(mean),
         running = ops::clone(n.tensor(4));
  ops::batch_norm_moments(x.data(), batch_mean, biased);
  ops::batch_norm_update_running(biased, options.momentum, 1, running);
  outputs.push_back(mean);
  outputs.push_back(running);
  return outputs;
}

Outputs mean_variance_normalization(const OnnxNode& n) {
  unless(n.integers("axes", {0, 2, 3}) == std::vector<int64_t>{0, 2, 3}, "over other axes");
  const Variable x = channels_last(n.var(0));
  const Tensor ones = ops::full({x.data().dim(-1)}, 1, x.data().dtype());
  const Tensor zeros = Tensor::zeros(ones.shape(), ones.dtype());
  // Its epsilon of 1e-9 is on the deviation and vanishes beside it.
  return {channels_first(batch_norm(x, Variable(ones), Variable(zeros), ops::clone(zeros),
                                    ops::clone(zeros), {.eps = 0}))};
}

Outputs instance_norm(const OnnxNode& n) {
  const Variable x = channels_last(n.var(0));
  return {channels_first(
      group_norm(x, x.data().dim(-1), n.var(1), n.var(2), n.number("epsilon", 1e-5)))};
}

Outputs layer_norm_adapter(const OnnxNode& n) {
  const Variable x = n.var(0);
  const Shape& shape = x.shape();
  const int axis = shape.axis(static_cast<int>(n.integer("axis", -1)), "LayerNormalization");
  const Shape normalized(shape.begin() + axis, shape.ndim() - axis);
  const double eps = n.number("epsilon", 1e-5);
  Outputs outputs{layer_norm(x, normalized, n.var(1), n.optional_var(2), eps).data()};
  // The statistics, which layer_norm keeps for backward.
  const ops::GroupNormResult result = ops::group_norm(
      x.data(), ops::layer_norm_extents(shape, normalized), Tensor(), Tensor(), eps);
  Shape rows = shape;
  for (int i = axis; i < shape.ndim(); ++i) rows = rows.with_dim(i, 1);
  outputs.push_back(result.mean.reshape(rows));
  outputs.push_back(result.rstd.reshape(rows));
  return outputs;
}

Outputs dropout_adapter(const OnnxNode& n) {
  unless(n.outputs() == 1, "the mask, which is never stored here");
  const bool training = n.has(2) && n.tensor(2).data<uint8_t>()[0] != 0;
  const double ratio = n.has(1) ? n.tensor(1).item() : n.number("ratio", 0.5);
  unless(!training || ratio == 0, "what is dropped depends on the generator");
  Generator rng(1);
  if (training) return {dropout(n.var(0), ratio, rng).data()};
  Dropout layer(ratio, rng);
  layer.eval();
  return {layer.forward(n.var(0)).data()};
}

const OnnxAdapter kAdapters[] = {
    {"BatchNormalization", "batch_norm", batch_norm_adapter},
    {"MeanVarianceNormalization", "batch_norm", mean_variance_normalization},
    {"InstanceNormalization", "group_norm", instance_norm},
    {"LayerNormalization", "layer_norm", layer_norm_adapter},
    {"Dropout", "Dropout, dropout", dropout_adapter},
};

}  // namespace

std::span<const OnnxAdapter> norm_adapters() { return kAdapters; }

}  // namespace lockstep::testing
