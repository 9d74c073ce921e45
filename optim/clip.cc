#include "lockstep/optim/clip.h"

#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tensor/ops/reduce.h"

#include <cmath>
#include <vector>

namespace lockstep {
namespace {

const Variable& variable_of(const Variable& parameter) { return parameter; }
const Variable& variable_of(const NamedParameter& entry) { return entry.parameter; }

template <class Parameter>
double clip(std::span<const Parameter> parameters, double max_norm) {
  check(max_norm >= 0, "clip_grad_norm: wanted max_norm >= 0, got ", max_norm);
  std::vector<Tensor> grads;
  for (const Parameter& parameter : parameters) {
    if (auto grad = variable_of(parameter).grad()) grads.push_back(*std::move(grad));
  }
  if (grads.empty()) return 0;

  // One sum for each gradient, not for each run of neighbours: another bucket plan must not change
  // the bits. They are read together, so that a device is waited for once.
  const auto count = static_cast<int64_t>(grads.size());
  const Tensor sums = Tensor::empty({count}, DType::kF64, grads[0].device());
  for (int64_t i = 0; i < count; ++i) {
    Tensor sum = sums.slice(i, i + 1);
    ops::sum_of_squares(grads[static_cast<size_t>(i)], sum);
  }
  double total = 0;
  for (const double sum : ops::to_device(sums, Device::cpu()).to_vector<double>()) total += sum;

  const double norm = std::sqrt(total);
  const double factor = max_norm / (norm + 1e-6);
  if (std::isfinite(norm) && factor < 1) {
    for (Tensor& grad : grads) ops::scale(grad, factor);
  }
  return norm;
}

}  // namespace

double clip_grad_norm(std::span<const Variable> parameters, double max_norm) {
  return clip(parameters, max_norm);
}

double clip_grad_norm(std::span<const NamedParameter> parameters, double max_norm) {
  return clip(parameters, max_norm);
}

}  // namespace lockstep
