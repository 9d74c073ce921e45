#include "lockstep/optim/adam.h"

#include "lockstep/optim/moments.h"

#include <utility>

namespace lockstep {

Adam::Adam(std::vector<NamedParameter> parameters, const AdamOptions& options)
    : Adam(one_group(std::move(parameters), options)) {}

Adam::Adam(std::vector<AdamGroup> groups) : Optimizer(moment_names()) {
  for (AdamGroup& group : groups) {
    const AdamOptions& o = group.options;
    check_moment_options("Adam", o.beta1, o.beta2, o.eps, o.weight_decay);
    options_.push_back(o);
    add_group(std::move(group.parameters), o.lr, 2, /*counted=*/true);
  }
}

void Adam::update() {
  for (size_t g = 0; g < groups_.size(); ++g) {
    passes_ += groups_[g].state.for_each_run([&](FusedState::Run& run) {
      ops::adam_step(run.param, run.grad, run.states[0], run.states[1],
                     adam_step_of(options_[g], lr(g), run), run.shadow);
    });
  }
}

AdamW::AdamW(std::vector<NamedParameter> parameters, const AdamWOptions& options)
    : AdamW(one_group(std::move(parameters), options)) {}

AdamW::AdamW(std::vector<AdamWGroup> groups) : Optimizer(moment_names()) {
  for (AdamWGroup& group : groups) {
    const AdamWOptions& o = group.options;
    check_moment_options("AdamW", o.beta1, o.beta2, o.eps, o.weight_decay);
    options_.push_back(o);
    add_group(std::move(group.parameters), o.lr, 2, /*counted=*/true);
  }
}

void AdamW::update() {
  for (size_t g = 0; g < groups_.size(); ++g) {
    passes_ += groups_[g].state.for_each_run([&](FusedState::Run& run) {
      AdamStep step = adam_step_of(options_[g], lr(g), run);
      step.decoupled_weight_decay = true;
      ops::adam_step(run.param, run.grad, run.states[0], run.states[1], step, run.shadow);
    });
  }
}

}  // namespace lockstep
