#include "lockstep/distributed/reduce/missing_gradient.h"

#include "lockstep/base/error.h"
#include "lockstep/distributed/comm/op_label.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {
namespace {

constexpr size_t kNamed = 3;

size_t bucket_of(int param, const BucketPlan& plan) {
  size_t b = 0;
  while (std::find(plan.buckets[b].params.begin(), plan.buckets[b].params.end(), param) ==
         plan.buckets[b].params.end()) {
    ++b;
  }
  return b;
}

/// "a, b, c and 4 more".
std::string listed(const std::vector<std::string>& names) {
  std::string text;
  for (size_t k = 0; k < std::min(names.size(), kNamed); ++k) {
    text += str(k > 0 ? ", " : "", names[k]);
  }
  return names.size() > kNamed ? str(text, " and ", names.size() - kNamed, " more") : text;
}

}  // namespace

void throw_missing_gradient(const Tensor& here, std::span<const NamedParameter> parameters,
                            std::span<const NamedParameter> frozen, bool unused_allowed,
                            const BucketPlan& plan, ProcessGroup& group) {
  const OpLabel label("which gradients are missing");
  const auto count = static_cast<size_t>(here.numel());
  Tensor all = Tensor::empty({group.size(), here.numel()}, DType::kI32);
  group.all_gather(all, here)->wait();

  int first_rank = -1, ranks = 0;
  std::vector<std::string> missing, unfrozen;  // on the first rank
  for (int rank = 0; rank < group.size(); ++rank) {
    const int32_t* row = all.data<int32_t>() + static_cast<size_t>(rank) * count;
    std::vector<std::string> lacks, thawed;
    for (size_t i = 0; i < count; ++i) {
      if (row[i] != 0 || (unused_allowed && i < parameters.size())) continue;
      if (i >= parameters.size()) {
        thawed.push_back(frozen[i - parameters.size()].name);
      } else {
        lacks.push_back(
            str(parameters[i].name, " (bucket ", bucket_of(static_cast<int>(i), plan), ")"));
      }
    }
    if (lacks.empty() && thawed.empty()) continue;
    if (++ranks > 1) continue;
    first_rank = rank;
    missing = std::move(lacks);
    unfrozen = std::move(thawed);
  }
  const std::string others = ranks > 1 ? str("; so it is on ", ranks, " ranks") : "";
  check(unfrozen.empty(), "reducer: rank ", first_rank, ": ", listed(unfrozen),
        " was frozen when the module was wrapped and wants a gradient now, which nobody would "
        "average; call rebuild() on every rank after unfreezing",
        others);
  throw ArgumentError(str(
      "reducer: rank ", first_rank, ": backward brought no gradient for ", listed(missing), others,
      "; each parameter must take part in the loss on every rank: set find_unused_parameters, "
      "ignore it, or freeze it with set_requires_grad(false) before wrapping; if it was frozen "
      "afterwards, call rebuild()"));
}

void require_in_bucket(const NamedParameter& parameter, const Tensor& slice) {
  const Tensor& bound = parameter.parameter.grad_slot();
  check(slice.numel() == 0 || bound.shares_memory(slice), "reducer: the gradient of ",
        parameter.name,
        " is no longer in its bucket, so nobody would average it: another DataParallel of the same "
        "parameters was made or destroyed, or their gradients were bound anew (bind_grad, an "
        "arena, Module::to); wrap the module once, or call rebuild() on every rank afterwards");
}

}  // namespace lockstep
