#include "lockstep/optim/lamb.h"

#include "lockstep/optim/moments.h"

#include <utility>

namespace lockstep {

Lamb::Lamb(std::vector<NamedParameter> parameters, const LambOptions& options)
    : Lamb(one_group(std::move(parameters), options)) {}

Lamb::Lamb(std::vector<LambGroup> groups) : Optimizer(moment_names()) {
  for (LambGroup& group : groups) {
    const LambOptions& o = group.options;
    check_moment_options("Lamb", o.beta1, o.beta2, o.eps, o.weight_decay);
    options_.push_back(o);
    add_group(std::move(group.parameters), o.lr, 2, /*counted=*/true);
  }
}

void Lamb::update() {
  for (size_t g = 0; g < groups_.size(); ++g) {
    const LambOptions& o = options_[g];
    FusedState& state = groups_[g].state;
    if (o.weight_decay == 0 && !o.always_adapt) {
      passes_ += state.for_each_run([&](FusedState::Run& run) {
        ops::adam_step(run.param, run.grad, run.states[0], run.states[1],
                       adam_step_of(o, lr(g), run), run.shadow);
      });
    } else {
      passes_ += 2 * state.for_each_parameter([&](FusedState::Run& run) {
        ops::lamb_step(run.param, run.grad, run.states[0], run.states[1],
                       adam_step_of(o, lr(g), run), run.shadow);
      });
    }
  }
}

}  // namespace lockstep
