#include "lockstep/distributed/nonfinite.h"

#include "lockstep/base/error.h"
#include "lockstep/distributed/comm/rank_texts.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tensor/ops/reduce.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

Tensor first_element(const Tensor& grad) { return grad.reshape({grad.numel()}).slice(0, 1); }

bool is_finite(const Tensor& grad, bool thorough) {
  return grad.numel() == 0 || ops::all_finite(thorough ? grad : first_element(grad));
}

}  // namespace

std::string describe(const NonfiniteGradient& gradient) {
  return gradient.rank >= 0
             ? str("the gradient of ", gradient.parameter, ", first on rank ", gradient.rank)
             : str("the sum over the ranks of the gradient of ", gradient.parameter,
                   ", each of which is finite");
}

void NonfiniteWatch::note(const GradBucket& bucket) {
  const auto bad = std::find_if(
      bucket.params.begin(), bucket.params.end(),
      [](const GradBucket::Param& param) { return !is_finite(param.grad, /*thorough=*/true); });
  if (bad == bucket.params.end()) return;
  if (noted_.empty()) noted_ = bad->name;
  Tensor mark = first_element(bad->grad);
  ops::fill(mark, std::numeric_limits<double>::quiet_NaN());
}

BucketReduction NonfiniteWatch::watched(BucketReduction reduction) {
  return [this, reduction = std::move(reduction)](const GradBucket& bucket) {
    bucket.flat.device().is_cpu() ? note(bucket) : flag(bucket);
    return reduction(bucket);
  };
}

void NonfiniteWatch::flag(const GradBucket& bucket) {
  const auto index = static_cast<size_t>(bucket.index);
  if (flagged_.size() <= index) flagged_.resize(index + 1);
  Flagged& flagged = flagged_[index];
  if (!flagged.flat.shares_memory(bucket.flat) ||
      flagged.flat.offset_bytes() != bucket.flat.offset_bytes()) {
    flagged.flat = bucket.flat;
    flagged.names.clear();
    for (const GradBucket::Param& param : bucket.params) flagged.names.push_back(param.name);
  }
  flagged.finite = ops::finite_flag(bucket.flat);
}

void NonfiniteWatch::note_flagged(std::span<const NamedParameter> parameters) {
  for (Flagged& flagged : flagged_) {
    const Tensor finite = std::exchange(flagged.finite, Tensor());
    if (!noted_.empty() || !finite.defined()) continue;
    if (*ops::to_device(finite, Device::cpu()).data<int32_t>() != 0) continue;
    for (const std::string& name : flagged.names) {
      const auto at = std::find_if(parameters.begin(), parameters.end(),
                                   [&](const NamedParameter& p) { return p.name == name; });
      const auto grad = at == parameters.end() ? std::nullopt : at->parameter.grad();
      if (!noted_.empty() || !grad || is_finite(*grad, /*thorough=*/true)) continue;
      noted_ = name;
    }
  }
}

bool NonfiniteWatch::found(std::span<const NamedParameter> parameters, bool thorough) const {
  if (!parameters.empty() && !parameters[0].parameter.device().is_cpu()) {
    std::vector<Tensor> grads;
    for (const NamedParameter& named : parameters) {
      if (const auto grad = named.parameter.grad()) grads.push_back(*grad);
    }
    return !ops::all_finite(grads);
  }
  return std::any_of(parameters.begin(), parameters.end(), [&](const NamedParameter& named) {
    const auto grad = named.parameter.grad();
    return grad && !is_finite(*grad, thorough);
  });
}

NonfiniteGradient NonfiniteWatch::first(std::span<const NamedParameter> parameters,
                                        ProcessGroup& group) {
  note_flagged(parameters);
  const std::vector<std::string> noted = gather_texts(std::exchange(noted_, ""), group);
  for (size_t rank = 0; rank < noted.size(); ++rank) {
    if (!noted[rank].empty()) return {.parameter = noted[rank], .rank = static_cast<int>(rank)};
  }
  for (const auto& [name, parameter] : parameters) {
    const auto grad = parameter.grad();
    if (grad && !is_finite(*grad, /*thorough=*/true)) return {.parameter = name};
  }
  return {};
}

}  // namespace lockstep
