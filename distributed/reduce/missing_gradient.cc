#include "lockstep/distributed/reduce/missing_gradient.h"

#include "lockstep/base/error.h"

#include <algorithm>
#include <string>
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

}  // namespace

void throw_missing_gradient(const Tensor& here, std::span<const NamedParameter> parameters,
                            const BucketPlan& plan, ProcessGroup& group) {
  const int64_t count = here.numel();
  Tensor all = Tensor::empty({group.size(), count}, DType::kI32);
  group.all_gather(all, here)->wait();

  std::vector<int> ranks;
  std::string names;
  size_t missing = 0;  // on the first of the ranks
  for (int rank = 0; rank < group.size(); ++rank) {
    const int32_t* row = all.data<int32_t>() + rank * count;
    if (std::find(row, row + count, 0) == row + count) continue;
    ranks.push_back(rank);
    if (ranks.size() > 1) continue;
    for (int64_t i = 0; i < count; ++i) {
      if (row[i] != 0) continue;
      if (missing++ >= kNamed) continue;
      names += str(missing > 1 ? ", " : "", parameters[static_cast<size_t>(i)].name, " (bucket ",
                   bucket_of(static_cast<int>(i), plan), ")");
    }
  }
  if (missing > kNamed) names += str(" and ", missing - kNamed, " more");
  if (ranks.size() > 1) names += str("; parameters are missing on ", ranks.size(), " ranks");
  throw ArgumentError(
      str("reducer: rank ", ranks.at(0), ": backward brought no gradient for ", names,
          "; each parameter must take part in the loss on every rank: set find_unused_parameters, "
          "ignore it, or freeze it with set_requires_grad(false) before wrapping; if it was frozen "
          "afterwards, call rebuild()"));
}

}  // namespace lockstep
