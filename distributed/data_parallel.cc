#include "lockstep/distributed/data_parallel.h"

#include "lockstep/distributed/parameter_agreement.h"
#include "lockstep/tensor/ops/copy.h"

#include <utility>
#include <vector>

namespace lockstep {
namespace {

/// Moves the parameters' values into one block in the order of the plan, and takes rank 0's values:
/// one broadcast for each bucket.
void move_and_broadcast(std::vector<Reducer::Parameter>& parameters,
                        const std::vector<ParamSpec>& specs, const BucketPlan& plan,
                        ProcessGroup& group) {
  const FlatArena values(specs, plan, parameters[0].variable.device());
  for (size_t i = 0; i < parameters.size(); ++i) {
    Tensor slot = values.param(static_cast<int>(i));
    ops::copy(parameters[i].variable.data(), slot);
    parameters[i].variable.mutable_data() = slot;
  }
  for (size_t b = 0; b < plan.buckets.size(); ++b)
    group.broadcast(values.bucket(static_cast<int>(b)), 0)->wait();
}

}  // namespace

DataParallel::DataParallel(Module& module, ProcessGroup& group, const DdpOptions& options)
    : module_(module), group_(group) {
  const auto named = module.named_parameters();
  require_same_parameters(named, group);
  std::vector<Reducer::Parameter> trained;
  std::vector<ParamSpec> specs;
  for (const auto& [name, parameter] : named) {
    if (parameter.requires_grad()) {
      trained.push_back({name, parameter});
      specs.push_back({name, parameter.shape(), parameter.dtype()});
    } else {
      group.broadcast(parameter.data(), 0)->wait();
    }
  }
  check(!trained.empty(), "DataParallel: the module has no parameter that requires a gradient");
  BucketPlan plan = plan_buckets(
      specs, {.first_mb = options.first_bucket_cap_mb, .rest_mb = options.bucket_cap_mb});
  move_and_broadcast(trained, specs, plan, group);
  broadcast_buffers();
  reducer_ = std::make_unique<Reducer>(std::move(trained), std::move(plan), group, options.mode,
                                       options.timeline);
}

DataParallel::~DataParallel() = default;

void DataParallel::broadcast_buffers() {
  for (const auto& [name, buffer] : module_.named_buffers()) group_.broadcast(buffer, 0)->wait();
}

}  // namespace lockstep
