#include "lockstep/optim/sgd.h"

#include "lockstep/tensor/ops/optimizer.h"

#include <cmath>

namespace lockstep {
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
    check(std::isfinite(o.dampening) && o.dampening >= 0, "Sgd: wanted dampening >= 0, got ",
          o.dampening);
    check(!o.nesterov || o.dampening == 0, "Sgd: nesterov wants no dampening, got ", o.dampening);
    options_.push_back(o);
    // Only dampening tells a parameter's first update from the others.
    add_group(std::move(group.parameters), o.lr, o.momentum > 0 ? 1 : 0,
              /*counted=*/o.momentum > 0 && o.dampening > 0);
  }
}

void Sgd::update() {
  for (size_t g = 0; g < groups_.size(); ++g) {
    const SgdOptions& o = options_[g];
    passes_ += groups_[g].state.for_each_run([&](FusedState::Run& run) {
      const SgdStep step{.lr = lr(g),
                         .momentum = o.momentum,
                         .dampening = run.step == 1 ? 0 : o.dampening,
                         .weight_decay = o.weight_decay,
                         .nesterov = o.nesterov};
      Tensor none;
      ops::sgd_step(run.param, run.grad, run.states.empty() ? none : run.states[0], step,
                    run.shadow);
    });
  }
}

}  // namespace lockstep
