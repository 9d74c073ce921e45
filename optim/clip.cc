#include "lockstep/optim/clip.h"

#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tensor/ops/optimizer.h"
#include "lockstep/tensor/ops/reduce.h"

#include <cmath>
#include <optional>
#include <vector>

namespace lockstep {
namespace {

const Variable& variable_of(const Variable& parameter) { return parameter; }
const Variable& variable_of(const NamedParameter& entry) { return entry.parameter; }

template <class Parameter>
std::optional<Tensor> clip(std::span<const Parameter> parameters, double max_norm) {
  check(max_norm >= 0, "clip_grad_norm: wanted max_norm >= 0, got ", max_norm);
  std::vector<Tensor> grads;
  for (const Parameter& parameter : parameters) {
    if (auto grad = variable_of(parameter).grad()) grads.push_back(*std::move(grad));
  }
  if (grads.empty()) return std::nullopt;

  // One sum for each gradient, not for each run of neighbours: another bucket plan must not change
  // the bits.
  const auto count = static_cast<int64_t>(grads.size());
  const Tensor sums = Tensor::empty({count}, DType::kF64, grads[0].device());
  for (int64_t i = 0; i < count; ++i) {
    Tensor sum = sums.slice(i, i + 1);
    ops::sum_of_squares(grads[static_cast<size_t>(i)], sum);
  }
  Tensor result = Tensor::empty({2}, DType::kF64, sums.device());
  ops::clip_factor(sums, max_norm, result);
  if (std::isfinite(max_norm)) {
    for (Tensor& grad : grads) ops::scale_by(result.slice(1, 2), grad);
  }
  return result.slice(0, 1);
}

double norm_of(const std::optional<Tensor>& norm) {
  return norm ? ops::to_device(*norm, Device::cpu()).item() : 0;
}

}  // namespace

double clip_grad_norm(std::span<const Variable> parameters, double max_norm) {
  return norm_of(clip(parameters, max_norm));
}

double clip_grad_norm(std::span<const NamedParameter> parameters, double max_norm) {
  return norm_of(clip(parameters, max_norm));
}

void clip_grads(std::span<const NamedParameter> parameters, double max_norm) {
  clip(parameters, max_norm);
}

}  // namespace lockstep
