#include "lockstep/distributed/reduce/flat_arena.h"

#include "lockstep/tensor/arena.h"

#include <map>

namespace lockstep {

FlatArena::FlatArena(std::span<const ParamSpec> params, const BucketPlan& plan, Device device)
    : params_(params.size()), buckets_(plan.buckets.size()) {
  std::map<DType, std::vector<size_t>> buckets_of;
  for (size_t b = 0; b < plan.buckets.size(); ++b) buckets_of[plan.buckets[b].dtype].push_back(b);

  for (const auto& [dtype, buckets] : buckets_of) {
    std::vector<int> order;
    std::vector<int64_t> numels;
    for (size_t b : buckets) {
      for (int i : plan.buckets[b].params) {
        order.push_back(i);
        numels.push_back(params[static_cast<size_t>(i)].shape.numel());
      }
    }
    const ArenaLayout layout = arena_layout(numels, dtype);
    const Tensor block = Tensor::zeros({layout.numel}, dtype, device);
    for (size_t k = 0; k < order.size(); ++k) {
      const auto i = static_cast<size_t>(order[k]);
      params_[i] = arena_view(block, layout.offsets[k], params[i].shape);
    }
    size_t k = 0;
    for (size_t b : buckets) {
      const int64_t begin = layout.offsets[k];
      k += plan.buckets[b].params.size();
      buckets_[b] = block.slice(begin, k < order.size() ? layout.offsets[k] : layout.numel);
    }
  }
}

}  // namespace lockstep
