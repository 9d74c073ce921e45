// Optimizer: what training loops, schedules and checkpoints need of one. Parameters come in groups,
// each with options of its own; each optimizer keeps some tensors of state for every parameter.
#pragma once

#include "lockstep/autograd/named_parameter.h"
#include "lockstep/optim/fused_state.h"
#include "lockstep/tensor/named_tensor.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

/// All that a resumed run needs besides the options that the optimizer was made with.
struct OptimizerState {
  std::vector<NamedTensor> tensors;                     // "momentum.layer1.0.conv1.weight", "step."
  std::vector<std::pair<std::string, double>> scalars;  // "group0.lr", "lr_factor"
};

/// Parameters that share options: Adam({{decayed, {.weight_decay = 0.1}}, {the_rest, {}}}).
template <class Options>
struct ParameterGroup {
  std::vector<NamedParameter> parameters;
  Options options;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  Optimizer(const Optimizer&) = delete;
  Optimizer& operator=(const Optimizer&) = delete;

  /// Updates every parameter that has a gradient, in place; the others, and their state, stay as
  /// they are. Where mixed precision computes with a bf16 shadow of a parameter (Autocast), that is
  /// written in the same pass over memory.
  void step();
  /// Forgets the gradients of all parameters; memory bound to them stays bound.
  void zero_grad();

  size_t group_count() const { return groups_.size(); }
  /// The rate in use: the group's own times the factor of the schedule.
  double lr(size_t group = 0) const;
  /// The group's own rate.
  void set_lr(double lr, size_t group = 0);
  /// Multiplies the rates of all groups, each taken as it was set:
  /// optimizer.set_lr_factor(schedule(step)).
  void set_lr_factor(double factor);

  /// The tensors are the optimizer's memory itself: write them out or copy them before the next
  /// step.
  OptimizerState state();
  /// Takes over what state() gave, bit for bit. Throws ArgumentError, in one line, when a name is
  /// missing or unexpected, or a shape or dtype differs; then nothing was changed.
  void load_state(const OptimizerState& state);

  /// Kernel calls of the last step: one for each run of neighbours in memory.
  size_t passes_of_last_step() const { return passes_; }

 protected:
  /// The passes of one step over all groups; counts them in passes_, which is 0 at the start. A
  /// kernel that moves a parameter writes run.shadow where that is defined.
  virtual void update() = 0;

  struct Group {
    std::vector<std::string> names;
    FusedState state;
    double lr;
  };

  /// `state_names`: what the state tensors of a parameter are called, in FusedState's order; a
  /// group may use the first few only.
  explicit Optimizer(std::vector<std::string> state_names) : state_names_(std::move(state_names)) {}
  /// Throws ArgumentError for a parameter that is undefined, requires no gradient, or is in a group
  /// already. `counted`: the update depends on how many a parameter has seen (FusedState).
  void add_group(std::vector<NamedParameter> parameters, double lr, size_t states,
                 bool counted = false);

  template <class Options>
  static std::vector<ParameterGroup<Options>> one_group(std::vector<NamedParameter> parameters,
                                                        const Options& options) {
    std::vector<ParameterGroup<Options>> groups;
    groups.push_back({std::move(parameters), options});
    return groups;
  }

  std::vector<Group> groups_;
  size_t passes_ = 0;

 private:
  std::vector<std::string> state_names_;
  double lr_factor_ = 1;
};

}  // namespace lockstep
