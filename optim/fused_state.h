// FusedState: the optimizer's own tensors for a list of parameters, laid out so that one kernel
// call updates a whole run of them. Where parameters and gradients lie next to each other in arenas
// of one layout (tensor/arena.h), the state does too, and the run's padding takes part: it is zero
// in all of them and stays zero.
#pragma once

#include "lockstep/autograd/variable.h"

#include <functional>
#include <span>
#include <vector>

namespace lockstep {

class FusedState {
 public:
  /// `count` state tensors for each parameter, zero at first.
  FusedState(std::vector<Variable> parameters, size_t count);

  /// All one-dimensional, of one count, dtype and device.
  using Pass = std::function<void(Tensor& param, const Tensor& grad, std::span<Tensor> states)>;
  /// Calls `pass` once for each run of neighbours that have a gradient; the others are left out.
  /// Returns the number of calls.
  size_t for_each_run(const Pass& pass);

  /// State tensor `which` of parameter `index`: the memory itself, until the next call after the
  /// parameters have moved.
  Tensor state(size_t index, size_t which);

  const std::vector<Variable>& parameters() const { return parameters_; }
  size_t count() const { return states_.size(); }

 private:
  /// Lays the state out anew when the parameters have moved (into an arena, to another dtype) since
  /// the last call. Done lazily, so that data parallelism can be set up after the optimizer.
  void follow_parameters();

  std::vector<Variable> parameters_;
  std::vector<const std::byte*> where_;      // each parameter's memory at the last layout
  std::vector<size_t> order_;                // parameters by dtype and address
  std::vector<std::vector<Tensor>> states_;  // [which][index]
};

}  // namespace lockstep
