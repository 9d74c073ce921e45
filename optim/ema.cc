#include "lockstep/optim/ema.h"

#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tensor/ops/optimizer.h"

#include <algorithm>
#include <cmath>

namespace lockstep {
namespace {

constexpr int64_t kMostUpdates = 1'000'000'000'000'000;  // a damaged file's must not overflow

std::vector<Variable> variables(const std::vector<NamedParameter>& parameters) {
  std::vector<Variable> list;
  list.reserve(parameters.size());
  for (const NamedParameter& entry : parameters) list.push_back(entry.parameter);
  return list;
}

}  // namespace

Ema::Ema(std::vector<NamedParameter> parameters, const EmaOptions& options)
    : averages_(variables(parameters), 1),
      options_(options),
      updates_(Tensor::zeros({}, DType::kI64)) {
  check(options.decay >= 0 && options.decay < 1, "Ema: wanted 0 <= decay < 1, got ", options.decay);
  check(options.warmup_gamma > 0 && options.warmup_power > 0,
        "Ema: wanted warmup_gamma and warmup_power above 0, got ", options.warmup_gamma, " and ",
        options.warmup_power);
  for (NamedParameter& entry : parameters) {
    check(std::count(names_.begin(), names_.end(), entry.name) == 0,
          "Ema: two parameters are named ", entry.name);
    names_.push_back(std::move(entry.name));
  }
}

double Ema::next_decay() const {
  const auto n = static_cast<double>(updates());
  if (n == 0) return 0;
  if (!options_.warmup) return options_.decay;
  return std::min(options_.decay,
                  1 - std::pow(1 + n / options_.warmup_gamma, -options_.warmup_power));
}

void Ema::update() {
  if (swapped_) throw Error("Ema::update: the parameters hold the averages; end EmaWeights first");
  const double weight = 1 - next_decay();
  passes_ = averages_.for_each_run_of_all(
      [&](FusedState::Run& run) { ops::lerp(run.states[0], run.param, weight); });
  ++updates_.mutable_data<int64_t>()[0];
}

std::vector<NamedTensor> Ema::state() {
  if (swapped_) throw Error("Ema::state: the parameters hold the averages; end EmaWeights first");
  std::vector<NamedTensor> state;
  for (size_t i = 0; i < names_.size(); ++i) {
    state.push_back({"average." + names_[i], averages_.state(i, 0)});
  }
  state.push_back({"updates", updates_});
  return state;
}

void Ema::load_state(std::span<const NamedTensor> state) {
  std::vector<NamedTensor> mine = this->state();
  check(mine.size() == state.size(), "Ema::load_state: wanted ", mine.size(), " tensors, got ",
        state.size());
  std::vector<const Tensor*> tensors;
  for (const auto& [name, target] : mine) {
    const auto at = std::find_if(state.begin(), state.end(),
                                 [&, &wanted = name](const auto& t) { return t.name == wanted; });
    check(at != state.end(), "Ema::load_state: no tensor is named ", name);
    const Tensor& tensor = at->tensor;
    check(tensor.shape() == target.shape() && tensor.dtype() == target.dtype(),
          "Ema::load_state: ", name, ": wanted ", name_of(target.dtype()), " ", target.shape(),
          ", got ", name_of(tensor.dtype()), " ", tensor.shape());
    tensors.push_back(&tensor);
  }
  const int64_t updates = tensors.back()->data<int64_t>()[0];
  check(updates >= 0 && updates <= kMostUpdates,
        "Ema::load_state: wanted updates from 0 to 10^15, got ", updates);
  for (size_t i = 0; i < mine.size(); ++i) {
    ops::copy(ops::to_device(*tensors[i], mine[i].tensor.device()), mine[i].tensor);
  }
}

void Ema::swap() {
  // In place, so that arenas and data parallelism stay as they are; one parameter's copy at a time.
  for (size_t i = 0; i < names_.size(); ++i) {
    Variable parameter = averages_.parameters()[i];
    Tensor average = averages_.state(i, 0);
    const Tensor weights = ops::clone(parameter.data());
    ops::copy(average, parameter.mutable_data());
    ops::copy(weights, average);
  }
}

EmaWeights::EmaWeights(Ema& ema) : ema_(ema) {
  if (ema.swapped_) throw Error("EmaWeights: there is one for this Ema already");
  ema.swapped_ = true;
  if (ema.updates() > 0) ema.swap();
}

EmaWeights::~EmaWeights() {
  if (ema_.updates() > 0) ema_.swap();
  ema_.swapped_ = false;
}

}  // namespace lockstep
