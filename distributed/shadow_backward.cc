#include "lockstep/distributed/shadow_backward.h"

#include "lockstep/autograd/record.h"
#include "lockstep/tensor/ops/copy.h"

#include <utility>
#include <vector>

namespace lockstep {
namespace {

/// A scalar that depends on all trained parameters and adds zero to their gradients. In launch
/// order, so that each bucket goes as soon as it is filled, and a plan made from the order of
/// arrival stays.
Variable zero_of(const DataParallel& ddp) {
  std::vector<Variable> inputs;
  for (const Bucket& bucket : ddp.plan().buckets) {
    for (int i : bucket.params)
      inputs.push_back(ddp.parameters()[static_cast<size_t>(i)].parameter);
  }
  const auto count = static_cast<int>(inputs.size());
  Tensor out = Tensor::zeros({}, inputs[0].dtype(), inputs[0].device());
  return record("shadow_backward", std::move(out), std::move(inputs),
                [count](const Tensor&, GradSink& sink) {
                  for (int i = 0; i < count; ++i) {
                    if (!sink.wants(i)) continue;
                    Dest dest = sink.dest(i);
                    if (!dest.accumulate) ops::fill(dest.out, 0);
                  }
                });
}

}  // namespace

void shadow_backward(DataParallel& ddp) {
  check(!ddp.options().static_graph,
        "shadow_backward: with static_graph each backward of a rank reaches the same parameters, "
        "and this one reaches none; use find_unused_parameters");
  if (ddp.options().find_unused_parameters) return ddp.contribute_nothing();
  zero_of(ddp).backward();
}

}  // namespace lockstep
