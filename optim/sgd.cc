#include "lockstep/optim/sgd.h"

#include "lockstep/tensor/ops/optimizer.h"

#include <cmath>

namespace lockstep {
namespace {

std::vector<SgdGroup> one_group(std::vector<NamedParameter> parameters, const SgdOptions& options) {
  std::vector<SgdGroup> groups;
  groups.push_back({std::move(parameters), options});
  return groups;
}

}  // namespace

Sgd::Sgd(std::vector<NamedParameter> parameters, const SgdOptions& options)
    : Sgd(one_group(std::move(parameters), options)) {}

Sgd::Sgd(std::vector<SgdGroup> groups) : Optimizer({"momentum"}) {
  for (SgdGroup& group : groups) {
    const SgdOptions& o = group.options;
    check(std::isfinite(o.momentum) && o.momentum >= 0, "Sgd: wanted momentum >= 0, got ",
          o.momentum);
    check(std::isfinite(o.weight_decay) && o.weight_decay >= 0,
          "Sgd: wanted weight_decay >= 0, got ", o.weight_decay);
    check(!o.nesterov || o.momentum > 0, "Sgd: nesterov wants a momentum above 0");
    options_.push_back(o);
    add_group(std::move(group.parameters), o.lr, o.momentum > 0 ? 1 : 0);
  }
}

void Sgd::step() {
  passes_ = 0;
  for (size_t g = 0; g < groups_.size(); ++g) {
    const SgdOptions& o = options_[g];
    const SgdStep step{lr(g), o.momentum, o.weight_decay, o.nesterov};
    passes_ += groups_[g].state.for_each_run(
        [&](Tensor& param, const Tensor& grad, std::span<Tensor> states) {
          Tensor none;
          ops::sgd_step(param, grad, states.empty() ? none : states[0], step);
        });
  }
}

}  // namespace lockstep
