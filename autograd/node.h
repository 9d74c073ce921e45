// Node: one recorded op; VariableImpl: the state behind Variable. Internal to autograd/.
#pragma once

#include "lockstep/autograd/record.h"
#include "lockstep/autograd/variable.h"

#include <memory>
#include <utility>
#include <vector>

namespace lockstep {

struct VariableImpl {
  Tensor data;
  bool requires_grad = false;
  std::shared_ptr<Node> producer;  // null: a leaf

  // Of leaves only.
  Tensor grad;  // the gradient's memory: the bound slot, or what the first contribution brought
  bool grad_defined = false;
  bool grad_bound = false;
  std::vector<std::pair<uint64_t, GradHook>> hooks;
  uint64_t next_hook = 1;
  int pending = 0;  // contributions still to come in the backward now running
  Tensor shadow;    // shadow.h; fresh while data is what and as it was:
  const std::byte* shadow_of = nullptr;
  uint64_t shadow_version = 0;
};

/// What an input of an op leads to: an inner node, a leaf, or neither when it requires no gradient.
struct Edge {
  std::shared_ptr<Node> node;
  std::shared_ptr<VariableImpl> leaf;
};

class Node {
 public:
  Node(const char* op, const Tensor& out, BackwardFn backward);
  /// Takes apart the graph below without recursion: a chain of any length is destroyed in constant
  /// stack.
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  /// Runs the backward function on the gradient that has arrived, checks that it served every
  /// input, and drops what it saved unless `retain_graph`.
  void visit(bool retain_graph);

  static Edge edge_to(const Variable& input);
  static uint64_t next_sequence();  // what this thread's next node gets
  static Variable result(Tensor data, std::shared_ptr<Node> producer);

  const char* op;
  uint64_t sequence;  // grows with each node made on a thread: backward visits the latest first
  Shape shape;        // of the result, and so of its gradient
  DType dtype;
  Device device;
  BackwardFn backward;  // empty once the graph was freed
  std::vector<Edge> inputs;

  // Of the backward now running.
  Tensor grad;      // what has arrived so far; undefined: nothing
  int pending = 0;  // contributions still to come
};

}  // namespace lockstep
