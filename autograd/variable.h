// Variable: a Tensor that takes part in reverse-mode differentiation. A value of this type is a
// handle: copies refer to the same variable. Leaves are made by users (parameters, inputs); the
// results of ops remember how they were computed.
//
// Threads: a graph belongs to one thread at a time; nothing here locks.
#pragma once

#include "lockstep/tensor/tensor.h"

#include <functional>
#include <memory>
#include <optional>

namespace lockstep {

class Node;
struct Shadow;
struct VariableImpl;
class Variable;

/// Called when a leaf's gradient of the running backward is complete.
using GradHook = std::function<void(const Variable& leaf)>;

/// Keeps a hook registered; destroying or resetting it removes the hook. May outlive the variable.
class [[nodiscard]] HookHandle {
 public:
  HookHandle() = default;
  HookHandle(HookHandle&&) noexcept = default;
  HookHandle& operator=(HookHandle&& other) noexcept;
  ~HookHandle() { reset(); }
  void reset();

 private:
  friend class Variable;
  HookHandle(std::weak_ptr<VariableImpl> variable, uint64_t id)
      : variable_(std::move(variable)), id_(id) {}

  std::weak_ptr<VariableImpl> variable_;
  uint64_t id_ = 0;
};

class Variable {
 public:
  /// Undefined; stands for "no bias" and the like.
  Variable() = default;
  /// A leaf. Only floating tensors can require a gradient.
  explicit Variable(Tensor data, bool requires_grad = false);

  bool defined() const { return impl_ != nullptr; }
  const Tensor& data() const;
  /// The value of a leaf, for updating it in place (optimizers, loading, broadcasting).
  Tensor& mutable_data();
  const Shape& shape() const { return data().shape(); }
  int64_t dim(int i) const { return data().dim(i); }
  DType dtype() const { return data().dtype(); }
  Device device() const { return data().device(); }

  bool requires_grad() const;
  /// Leaves only.
  void set_requires_grad(bool requires_grad);
  bool is_leaf() const;
  /// The op that made this, or null for a leaf.
  const std::shared_ptr<Node>& producer() const;
  /// The same value as a new leaf that requires no gradient; shares the memory.
  Variable detach() const;
  /// Whether both handles refer to one variable.
  bool is(const Variable& other) const { return impl_ == other.impl_; }

  /// The gradient of a leaf: what backward has added up since zero_grad, or nothing when no
  /// backward reached it. The tensor is the gradient's memory itself, not a copy.
  std::optional<Tensor> grad() const;
  /// Forgets the gradient; the next backward overwrites instead of adding, so nothing is cleared.
  void zero_grad();
  /// From now on gradients are written into `slot` (same shape, dtype, device): a slice of a
  /// bucket. Any gradient so far is forgotten. An undefined tensor unbinds.
  void bind_grad(Tensor slot);
  /// The memory that bind_grad set, or undefined.
  const Tensor& grad_slot() const;
  /// Declares the bound memory to hold the gradient (or not): for a reducer that filled it in
  /// place.
  void set_grad_defined(bool defined);

  /// Computes the gradients of all leaves that this depends on, adding to what they hold. Without
  /// an argument the variable must have one element, and its gradient is 1. Frees what the graph
  /// saved unless `retain_graph`.
  void backward(bool retain_graph = false) const;
  void backward(const Tensor& grad, bool retain_graph = false) const;

  /// Calls `hook` once in each backward that reaches this leaf, after its last contribution in that
  /// backward.
  HookHandle on_grad_ready(GradHook hook);

 private:
  friend class Engine;
  friend class Node;
  friend struct Shadow;
  explicit Variable(std::shared_ptr<VariableImpl> impl) : impl_(std::move(impl)) {}

  std::shared_ptr<VariableImpl> impl_;
};

/// While one lives, ops on this thread record nothing.
class [[nodiscard]] NoGrad {
 public:
  NoGrad();
  ~NoGrad();
  NoGrad(const NoGrad&) = delete;
  NoGrad& operator=(const NoGrad&) = delete;

 private:
  bool before_;
};

/// Whether ops on this thread record.
bool grad_enabled();

}  // namespace lockstep
