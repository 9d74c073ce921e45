// Optimizers' steps. The inputs are the learning rate, the number of steps done, then all
// parameters, all gradients and each kind of state; the outputs are new parameters and state.
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tensor/ops/optimizer.h"
#include "lockstep/tests/onnx/node.h"

namespace lockstep::testing {
namespace {

using Outputs = std::vector<Tensor>;

/// Copies of inputs 2 ... in their order, to be changed in place.
std::vector<Tensor> copies(const OnnxNode& n) {
  std::vector<Tensor> tensors;
  for (size_t i = 2; i < n.inputs(); ++i) tensors.push_back(ops::clone(n.tensor(i)));
  return tensors;
}

/// Without the gradients, which are the second group of `count`.
Outputs without_gradients(std::vector<Tensor> tensors, size_t count) {
  const auto first = tensors.begin() + static_cast<std::ptrdiff_t>(count);
  tensors.erase(first, first + static_cast<std::ptrdiff_t>(count));
  return tensors;
}

Outputs momentum(const OnnxNode& n) {
  std::vector<Tensor> t = copies(n);
  const size_t count = t.size() / 3;
  const SgdStep step{.lr = n.tensor(0).item(),
                     .momentum = n.number("alpha", 0),
                     .dampening = n.list(1)[0] > 0 ? 1 - n.number("beta", 1) : 0,
                     .weight_decay = n.number("norm_coefficient", 0),
                     .nesterov = n.text("mode", "standard") == "nesterov"};
  for (size_t i = 0; i < count; ++i) ops::sgd_step(t[i], t[count + i], t[2 * count + i], step);
  return without_gradients(t, count);
}

Outputs adam(const OnnxNode& n) {
  unless(n.list(1)[0] == 0, "a correction of the bias with epsilon in another place");
  unless(n.number("norm_coefficient_post", 0) == 0, "weight decay after the step");
  std::vector<Tensor> t = copies(n);
  const size_t count = t.size() / 4;
  // ONNX does not correct the bias at step 0; here, after a million steps nothing is left of it.
  // The one case that names no epsilon was computed with 1e-2, whatever the operator's default.
  const AdamStep step{.lr = n.tensor(0).item(),
                      .beta1 = n.number("alpha", 0.9),
                      .beta2 = n.number("beta", 0.999),
                      .eps = n.number("epsilon", 1e-2),
                      .weight_decay = n.number("norm_coefficient", 0),
                      .step = 1'000'000};
  for (size_t i = 0; i < count; ++i) {
    ops::adam_step(t[i], t[count + i], t[2 * count + i], t[3 * count + i], step);
  }
  return without_gradients(t, count);
}

const OnnxAdapter kAdapters[] = {
    {"Momentum", "ops::sgd_step", momentum},
    {"Adam", "ops::adam_step", adam},
};

}  // namespace

std::span<const OnnxAdapter> optimizer_adapters() { return kAdapters; }

}  // namespace lockstep::testing
