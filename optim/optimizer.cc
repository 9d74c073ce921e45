#include "lockstep/optim/optimizer.h"

#include "lockstep/tensor/ops/copy.h"

#include <algorithm>
#include <cmath>

namespace lockstep {
namespace {

constexpr const char* kStepPrefix = "step.";
constexpr double kMostSteps = 1e15;  // a damaged file's must not overflow

void check_rate(const char* caller, double lr) {
  check(std::isfinite(lr) && lr >= 0, caller, ": wanted a learning rate >= 0, got ", lr);
}

}  // namespace

void Optimizer::add_group(std::vector<NamedParameter> parameters, double lr, size_t states,
                          bool counted) {
  check_rate("Optimizer", lr);
  std::vector<std::string> names;
  std::vector<Variable> variables;
  for (NamedParameter& entry : parameters) {
    const Variable& p = entry.parameter;
    check(p.defined() && p.is_leaf() && p.requires_grad(), "Optimizer: ", entry.name,
          ": wanted a leaf that requires a gradient");
    const auto taken = [&](const std::vector<Variable>& list) {
      return std::any_of(list.begin(), list.end(), [&](const Variable& v) { return v.is(p); });
    };
    bool twice = taken(variables);
    bool same_name = std::count(names.begin(), names.end(), entry.name) > 0;
    for (const Group& group : groups_) {
      twice = twice || taken(group.state.parameters());
      same_name = same_name || std::count(group.names.begin(), group.names.end(), entry.name) > 0;
    }
    check(!twice, "Optimizer: ", entry.name, " is given twice");
    check(!same_name, "Optimizer: two parameters are named ", entry.name);
    variables.push_back(p);
    names.push_back(std::move(entry.name));
  }
  groups_.push_back({std::move(names), FusedState(std::move(variables), states, counted), lr});
}

void Optimizer::step() {
  passes_ = 0;
  for (Group& group : groups_) group.state.begin_shadows();
  update();
  for (Group& group : groups_) group.state.end_shadows();
}

void Optimizer::zero_grad() {
  for (Group& group : groups_) {
    for (Variable parameter : group.state.parameters()) parameter.zero_grad();
  }
}

double Optimizer::lr(size_t group) const {
  check(group < groups_.size(), "Optimizer: there are ", groups_.size(), " groups, asked for ",
        group);
  return groups_[group].lr * lr_factor_;
}

void Optimizer::set_lr(double lr, size_t group) {
  check(group < groups_.size(), "Optimizer: there are ", groups_.size(), " groups, asked for ",
        group);
  check_rate("set_lr", lr);
  groups_[group].lr = lr;
}

void Optimizer::set_lr_factor(double factor) {
  check_rate("set_lr_factor", factor);
  lr_factor_ = factor;
}

OptimizerState Optimizer::state() {
  OptimizerState state;
  state.scalars.emplace_back("lr_factor", lr_factor_);
  for (size_t g = 0; g < groups_.size(); ++g) {
    Group& group = groups_[g];
    state.scalars.emplace_back(str("group", g, ".lr"), group.lr);
    for (size_t i = 0; i < group.names.size(); ++i) {
      for (size_t s = 0; s < group.state.count(); ++s) {
        state.tensors.push_back({state_names_[s] + "." + group.names[i], group.state.state(i, s)});
      }
      if (group.state.counted()) {
        state.tensors.push_back({kStepPrefix + group.names[i], group.state.steps(i)});
      }
    }
  }
  return state;
}

void Optimizer::load_state(const OptimizerState& state) {
  OptimizerState mine = this->state();
  const auto refuse = [](const auto&... parts) {
    throw ArgumentError(str("Optimizer::load_state: ", parts...));
  };
  if (mine.tensors.size() != state.tensors.size() || mine.scalars.size() != state.scalars.size()) {
    refuse("wanted ", mine.tensors.size(), " tensors and ", mine.scalars.size(), " scalars, got ",
           state.tensors.size(), " and ", state.scalars.size(),
           "; was the state saved with other groups or other options?");
  }
  std::vector<const Tensor*> tensors;
  for (const NamedTensor& wanted : mine.tensors) {
    const auto at =
        std::find_if(state.tensors.begin(), state.tensors.end(),
                     [&](const NamedTensor& entry) { return entry.name == wanted.name; });
    if (at == state.tensors.end()) refuse("no tensor is named ", wanted.name);
    if (at->tensor.shape() != wanted.tensor.shape() ||
        at->tensor.dtype() != wanted.tensor.dtype()) {
      refuse(wanted.name, ": wanted ", name_of(wanted.tensor.dtype()), " ", wanted.tensor.shape(),
             ", got ", name_of(at->tensor.dtype()), " ", at->tensor.shape());
    }
    if (wanted.name.starts_with(kStepPrefix) &&
        (at->tensor.item() < 0 || at->tensor.item() > kMostSteps)) {
      refuse(wanted.name, ": wanted a count up to 10^15, got ", at->tensor.item());
    }
    tensors.push_back(&at->tensor);
  }
  std::vector<double> scalars;
  for (const auto& [name, value] : mine.scalars) {
    const auto at =
        std::find_if(state.scalars.begin(), state.scalars.end(),
                     [&, &wanted = name](const auto& entry) { return entry.first == wanted; });
    if (at == state.scalars.end()) refuse("no scalar is named ", name);
    check_rate("Optimizer::load_state", at->second);
    scalars.push_back(at->second);
  }
  for (size_t i = 0; i < tensors.size(); ++i) {
    Tensor& target = mine.tensors[i].tensor;
    ops::copy(ops::to_device(*tensors[i], target.device()), target);
  }
  lr_factor_ = scalars[0];
  for (size_t g = 0; g < groups_.size(); ++g) groups_[g].lr = scalars[g + 1];
}

}  // namespace lockstep
