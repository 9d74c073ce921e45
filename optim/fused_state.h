// FusedState: the optimizer's own tensors for a list of parameters, laid out so that one kernel
// call updates a whole run of them. Where parameters and gradients lie next to each other in arenas
// of one layout (tensor/arena.h), the state does too, and the run's padding takes part: it is zero
// in all of them and stays zero.
#pragma once

#include "lockstep/autograd/variable.h"

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace lockstep {

class FusedState {
 public:
  /// `count` state tensors for each parameter, zero at first. `counted`: each parameter's updates
  /// are counted, which splits a run where parameters have seen different numbers of them.
  FusedState(std::vector<Variable> parameters, size_t count, bool counted = false);

  /// Tensors are one-dimensional, of one count, dtype and device.
  struct Run {
    Tensor param;
    Tensor grad;  // undefined in for_each_run_of_all
    std::span<Tensor> states;
    int64_t step = 0;    // which update of these parameters it is, from 1; 0 where none are counted
    Tensor shadow = {};  // bf16, for the new values of param; undefined where nobody wants them
  };
  using Pass = std::function<void(Run& run)>;
  /// Calls `pass` once for each run of neighbours that have a gradient; the others are left out,
  /// uncounted. Returns the number of calls.
  size_t for_each_run(const Pass& pass) { return visit(pass, /*by_grad=*/true, /*fuse=*/true); }
  /// The same with each parameter for itself, without padding: for what needs its norm.
  size_t for_each_parameter(const Pass& pass) { return visit(pass, true, /*fuse=*/false); }
  /// The same over all parameters, whether they have a gradient or not.
  size_t for_each_run_of_all(const Pass& pass) { return visit(pass, /*by_grad=*/false, true); }

  /// Around the passes of one step, which then write the bf16 shadows (autograd/shadow.h) of the
  /// f32 parameters where an op has asked for one of them: begin before the first of any group, end
  /// after the last, because groups may share an arena and so a version.
  void begin_shadows();
  void end_shadows();

  /// State tensor `which` of parameter `index`: the memory itself, until the next call after the
  /// parameters have moved.
  Tensor state(size_t index, size_t which);

  bool counted() const { return steps_.defined(); }
  /// How many updates parameter `index` has seen, i64 []: the memory itself. For counted ones only.
  Tensor steps(size_t index) const;

  const std::vector<Variable>& parameters() const { return parameters_; }
  size_t count() const { return states_.size(); }

 private:
  /// Lays the state out anew when the parameters have moved (into an arena, to another dtype) since
  /// the last call. Done lazily, so that data parallelism can be set up after the optimizer.
  void follow_parameters();
  size_t visit(const Pass& pass, bool by_grad, bool fuse);
  void lay_out_shadows();

  std::vector<Variable> parameters_;
  std::vector<const std::byte*> where_;      // each parameter's memory at the last layout
  std::vector<size_t> order_;                // parameters by dtype and address
  std::vector<std::vector<Tensor>> states_;  // [which][index]
  Tensor steps_;                             // i64 [parameters] on the CPU, or undefined

  enum class InStep : uint8_t { kStale, kFresh, kWritten };
  std::vector<Tensor> shadows_;  // by index; undefined for what is not f32; empty: none are wanted
  std::vector<InStep> in_step_;  // by index; empty outside of a step
};

}  // namespace lockstep
