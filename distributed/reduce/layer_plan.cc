#include "lockstep/distributed/reduce/layer_plan.h"

#include <utility>

namespace lockstep {

Planner plan_by_layer(LayerOf layer_of) {
  return [layer_of = std::move(layer_of)](std::span<const ParamSpec> params, const BucketCaps&) {
    BucketPlan plan;
    std::string layer;  // of the open bucket
    for (size_t i = params.size(); i-- > 0;) {
      const ParamSpec& param = params[i];
      std::string its_layer = layer_of(param.name);
      if (plan.buckets.empty() || its_layer != layer || plan.buckets.back().dtype != param.dtype) {
        plan.buckets.push_back({param.dtype, {}, 0});
        layer = std::move(its_layer);
      }
      plan.buckets.back().params.push_back(static_cast<int>(i));
      plan.buckets.back().bytes += param.bytes();
    }
    return plan;
  };
}

}  // namespace lockstep
