// A planner that cuts buckets where layers end, so that a layer that is dropped on all ranks leaves
// out whole buckets (section 6.2.2 of Li et al., PVLDB 13(12), 2020).
#pragma once

#include "lockstep/distributed/reduce/bucket_plan.h"

#include <functional>
#include <string>
#include <string_view>

namespace lockstep {

/// The name of the layer that a parameter belongs to, from its own:
/// "layer1.0.conv2.weight" -> "layer1.0".
using LayerOf = std::function<std::string(std::string_view parameter)>;

/// Gradients that arrive one after the other and belong to one layer, of one dtype, are a bucket;
/// caps do not count.
Planner plan_by_layer(LayerOf layer_of);

}  // namespace lockstep
