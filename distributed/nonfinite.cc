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
    note(bucket);
    return reduction(bucket);
  };
}

bool NonfiniteWatch::found(std::span<const NamedParameter> parameters, bool thorough) const {
  return std::any_of(parameters.begin(), parameters.end(), [&](const NamedParameter& named) {
    const auto grad = named.parameter.grad();
    return grad && !is_finite(*grad, thorough);
  });
}

NonfiniteGradient NonfiniteWatch::first(std::span<const NamedParameter> parameters,
                                        ProcessGroup& group) {
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
