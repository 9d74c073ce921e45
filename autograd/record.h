// record: the one way onto the tape. An op computes its result, then records the function that
// turns the gradient of the result into the gradients of its inputs.
#pragma once

#include "lockstep/autograd/variable.h"
#include "lockstep/tensor/dest.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace lockstep {

class GradSink;
struct Edge;

/// Must hand over one gradient for every input that sink.wants(); exactly one, by dest() or by
/// give().
using BackwardFn = std::function<void(const Tensor& grad_out, GradSink& sink)>;

/// The result of `op` with its place in the graph. When no input requires a gradient, or under
/// NoGrad, it is a plain leaf and `backward` is dropped. `op` must be a string literal: "conv2d".
Variable record(const char* op, Tensor out, std::vector<Variable> inputs, BackwardFn backward);

/// Where the backward function of one node puts its gradients.
class GradSink {
 public:
  /// Whether input i needs a gradient; if not, do not compute it.
  bool wants(int i) const;
  /// The memory for the gradient of input i, and whether to overwrite or add: a slice of a bucket
  /// for a parameter.
  Dest dest(int i);
  /// Hands over a finished gradient, of input i's shape and dtype. It may share memory with
  /// grad_out; the engine copies only when it must (into a bound slot; counted by
  /// gradient_bytes_copied).
  void give(int i, Tensor grad);
  /// Instead of all that: the backward goes on from `root`, whose gradient is `grad` and whose
  /// graph stands for this node's op. Its ends are the node's inputs.
  void go_on_from(const Variable& root, Tensor grad);

 private:
  friend class Node;
  explicit GradSink(Node& node);
  const Edge& take(int i);
  bool gave(int i) const { return given_[static_cast<size_t>(i)]; }

  Node& node_;
  std::vector<bool> given_;
  bool goes_on_ = false;
};

/// A tensor kept for backward. get() throws ArgumentError when its memory was changed after it was
/// saved.
class Saved {
 public:
  Saved() = default;
  explicit Saved(Tensor tensor) : tensor_(std::move(tensor)), version_(tensor_.version()) {}
  const Tensor& get() const;

 private:
  Tensor tensor_;
  uint64_t version_ = 0;
};

/// Calls fn(true) when the backward now running on this thread has visited every node, before
/// backward() returns; functions run in the order in which they were given, and may throw. When an
/// exception cuts the backward short, one of theirs too, those that were not called yet are called
/// with false instead, and what they throw is dropped. Only from within a backward (a grad-ready
/// hook, say).
void at_end_of_backward(std::function<void(bool completed)> fn);

/// Whether the backward now running on this thread has contributions for `leaf` still to bring. The
/// engine counts them before it visits the first node, so that already the first grad-ready hook
/// can tell which leaves this backward will not reach. Only from within a backward.
bool awaits_gradient(const Variable& leaf);

/// Bytes that this thread's backwards copied into bound gradient memory because an op gave a
/// gradient instead of writing it in place. A training step with in-place ops leaves it unchanged.
uint64_t gradient_bytes_copied();

}  // namespace lockstep
