#include "lockstep/autograd/engine.h"

#include "lockstep/autograd/node.h"
#include "lockstep/tensor/ops/copy.h"

#include <algorithm>
#include <queue>
#include <utility>

namespace lockstep {
namespace {

using NodePtr = std::shared_ptr<Node>;
using LeafPtr = std::shared_ptr<VariableImpl>;

/// The state of one backward on one thread; its end, also by an exception, leaves the graph as it
/// was found.
struct Run {
  Run();
  ~Run();

  static bool earlier(const NodePtr& a, const NodePtr& b) { return a->sequence < b->sequence; }

  Run* outer;  // the backward in whose hook this one was started, if any
  std::vector<NodePtr> nodes;
  std::vector<LeafPtr> leaves;
  std::priority_queue<NodePtr, std::vector<NodePtr>, decltype(&earlier)> ready{earlier};
  std::vector<std::function<void(bool)>> at_end;
  size_t told = 0;  // so many of at_end know how it ended
};

thread_local Run* current = nullptr;
thread_local uint64_t bytes_copied = 0;

Run::Run() : outer(std::exchange(current, this)) {}

Run::~Run() {
  current = outer;
  for (const NodePtr& node : nodes) {
    node->grad = Tensor();
    node->pending = 0;
  }
  for (const LeafPtr& leaf : leaves) leaf->pending = 0;
  while (told < at_end.size()) {
    try {
      at_end[told++](false);
    } catch (...) {
      // The exception that cut the backward short is on its way already.
    }
  }
}

/// Counts, for every node and leaf below `root`, the contributions that this backward will bring.
void count_contributions(Run& run, const NodePtr& root) {
  size_t next = run.nodes.size();
  run.nodes.push_back(root);
  for (; next < run.nodes.size(); ++next) {
    const Node& node = *run.nodes[next];
    check(node.backward != nullptr, "backward: ", node.op,
          ": the graph was freed by an earlier backward; pass retain_graph to walk it twice");
    for (const Edge& edge : node.inputs) {
      if (edge.node != nullptr && edge.node->pending++ == 0) run.nodes.push_back(edge.node);
      if (edge.leaf != nullptr && edge.leaf->pending++ == 0) run.leaves.push_back(edge.leaf);
    }
  }
}

Dest leaf_dest(VariableImpl& leaf) {
  if (!leaf.grad.defined()) {
    leaf.grad = Tensor::empty(leaf.data.shape(), leaf.data.dtype(), leaf.data.device());
  }
  return {leaf.grad, std::exchange(leaf.grad_defined, true)};
}

Dest node_dest(Node& node) {
  const bool first = !node.grad.defined();
  if (first) {
    node.grad = Tensor::empty(node.shape, node.dtype, node.device);
  } else if (!node.grad.unique()) {
    node.grad = ops::clone(node.grad);  // shared with another gradient, which must not change
  }
  return {node.grad, !first};
}

void give_to_leaf(VariableImpl& leaf, Tensor grad) {
  if (std::exchange(leaf.grad_defined, true)) {
    ops::add_scaled(grad, 1.0, leaf.grad);
  } else if (leaf.grad_bound) {
    ops::copy(grad, leaf.grad);
    bytes_copied += grad.nbytes();
  } else {
    leaf.grad = grad.unique() ? std::move(grad) : ops::clone(grad);
  }
}

void give_to_node(Node& node, Tensor grad) {
  if (!node.grad.defined()) {
    node.grad = std::move(grad);
    return;
  }
  if (!node.grad.unique()) node.grad = ops::clone(node.grad);
  ops::add_scaled(grad, 1.0, node.grad);
}

}  // namespace

void Engine::run(const Variable& root, const Tensor& grad, bool retain_graph) {
  Run run;
  const auto fire_hooks = [](const LeafPtr& leaf) {
    const auto& hooks = leaf->hooks;  // their numbers rise
    uint64_t last = 0;
    for (;;) {  // found anew each time: a hook may add hooks and remove them, itself too
      const auto next = std::find_if(hooks.begin(), hooks.end(),
                                     [=](const auto& entry) { return entry.first > last; });
      if (next == hooks.end()) return;
      last = next->first;
      const GradHook hook = next->second;
      hook(Variable(leaf));
    }
  };
  if (root.is_leaf()) {
    give_to_leaf(*root.impl_, grad);
    fire_hooks(root.impl_);
  } else {
    count_contributions(run, root.producer());
    root.producer()->grad = grad;
    run.ready.push(root.producer());
    while (!run.ready.empty()) {
      const NodePtr node = run.ready.top();  // the latest
      run.ready.pop();
      node->visit(retain_graph);
      for (const Edge& edge : node->inputs) {
        if (edge.leaf != nullptr && --edge.leaf->pending == 0) fire_hooks(edge.leaf);
        if (edge.node != nullptr && --edge.node->pending == 0) run.ready.push(edge.node);
      }
    }
  }
  while (run.told < run.at_end.size()) {
    const auto fn = std::move(run.at_end[run.told++]);  // it may add others
    fn(true);
  }
}

GradSink::GradSink(Node& node) : node_(node), given_(node.inputs.size(), false) {}

bool GradSink::wants(int i) const {
  const Edge& edge = node_.inputs.at(static_cast<size_t>(i));
  return edge.node != nullptr || edge.leaf != nullptr;
}

const Edge& GradSink::take(int i) {
  check(wants(i), "backward: ", node_.op, " gave a gradient for input ", i, ", which wants none");
  check(!given_[static_cast<size_t>(i)], "backward: ", node_.op, " gave two gradients for input ",
        i);
  given_[static_cast<size_t>(i)] = true;
  return node_.inputs[static_cast<size_t>(i)];
}

Dest GradSink::dest(int i) {
  const Edge& edge = take(i);
  return edge.leaf != nullptr ? leaf_dest(*edge.leaf) : node_dest(*edge.node);
}

void GradSink::give(int i, Tensor grad) {
  const Edge& edge = take(i);
  const Shape& shape = edge.leaf != nullptr ? edge.leaf->data.shape() : edge.node->shape;
  const DType dtype = edge.leaf != nullptr ? edge.leaf->data.dtype() : edge.node->dtype;
  check(grad.shape() == shape && grad.dtype() == dtype, "backward: ", node_.op,
        " gave a gradient of ", name_of(grad.dtype()), " ", grad.shape(), " for input ", i, " of ",
        name_of(dtype), " ", shape);
  if (edge.leaf != nullptr) {
    give_to_leaf(*edge.leaf, std::move(grad));
  } else {
    give_to_node(*edge.node, std::move(grad));
  }
}

void GradSink::go_on_from(const Variable& root, Tensor grad) {
  // Counted before the node's own edges are taken off: what both lead to stays awaited.
  count_contributions(*current, root.producer());
  root.producer()->grad = std::move(grad);
  current->ready.push(root.producer());
  goes_on_ = true;
}

bool Engine::awaits(const Variable& leaf) {
  check(current != nullptr, "awaits_gradient: no backward is running on this thread");
  return leaf.impl_->pending > 0;
}

bool awaits_gradient(const Variable& leaf) { return Engine::awaits(leaf); }

void at_end_of_backward(std::function<void(bool)> fn) {
  check(current != nullptr, "at_end_of_backward: no backward is running on this thread");
  current->at_end.push_back(std::move(fn));
}

uint64_t gradient_bytes_copied() { return bytes_copied; }

}  // namespace lockstep
