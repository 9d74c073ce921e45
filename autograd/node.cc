#include "lockstep/autograd/node.h"

#include "lockstep/autograd/recording.h"

#include <algorithm>

namespace lockstep {
namespace {

thread_local uint64_t sequence_counter = 0;
// Nodes whose last owner is being destroyed; non-null while a destructor up the stack empties it.
thread_local std::vector<std::shared_ptr<Node>>* orphans = nullptr;

}  // namespace

Node::Node(const char* op_name, const Tensor& out, BackwardFn fn)
    : op(op_name),
      sequence(sequence_counter++),
      shape(out.shape()),
      dtype(out.dtype()),
      device(out.device()),
      backward(std::move(fn)) {}

Node::~Node() {
  backward = nullptr;
  std::vector<std::shared_ptr<Node>> mine;
  const bool outermost = orphans == nullptr;
  if (outermost) orphans = &mine;
  for (Edge& edge : inputs) {
    if (edge.node != nullptr) orphans->push_back(std::move(edge.node));
  }
  if (!outermost) return;
  while (!mine.empty()) {
    const std::shared_ptr<Node> node = std::move(mine.back());
    mine.pop_back();
    // Leaving this scope may destroy the node, which then adds its inputs to `mine`.
  }
  orphans = nullptr;
}

void Node::visit(bool retain_graph) {
  GradSink sink(*this);
  // Moved out first: once the function returns, nothing else holds the gradient's memory.
  const Tensor grad_out = std::move(grad);
  grad = Tensor();
  backward(grad_out, sink);
  for (int i = 0; !sink.goes_on_ && i < static_cast<int>(inputs.size()); ++i) {
    check(!sink.wants(i) || sink.gave(i), "backward: ", op, " gave no gradient for input ", i);
  }
  if (!retain_graph) backward = nullptr;
}

Variable record(const char* op, Tensor out, std::vector<Variable> inputs, BackwardFn backward) {
  const bool needed =
      grad_enabled() && std::any_of(inputs.begin(), inputs.end(),
                                    [](const auto& v) { return v.defined() && v.requires_grad(); });
  if (!needed) return Variable(std::move(out));
  auto node =
      std::make_shared<Node>(op, out, OutlineOnly::active() ? nullptr : std::move(backward));
  for (const Variable& input : inputs) node->inputs.push_back(Node::edge_to(input));
  return Node::result(std::move(out), std::move(node));
}

Edge Node::edge_to(const Variable& input) {
  if (!input.defined() || !input.requires_grad()) return {};
  return input.is_leaf() ? Edge{nullptr, input.impl_} : Edge{input.producer(), nullptr};
}

uint64_t Node::next_sequence() { return sequence_counter; }

Variable Node::result(Tensor data, std::shared_ptr<Node> producer) {
  auto impl = std::make_shared<VariableImpl>();
  impl->data = std::move(data);
  impl->requires_grad = true;
  impl->producer = std::move(producer);
  return Variable(std::move(impl));
}

}  // namespace lockstep
