// Engine: walks the recorded graph from an output to the leaves. Internal to autograd/; users call
// Variable::backward.
//
// Nodes are visited by descending sequence number, each once all gradients of its result have
// arrived; a leaf's hooks fire the moment its last contribution is written, so that communication
// can start while backward goes on. The walk is a loop over a heap: a graph of any depth needs
// constant stack.
#pragma once

#include "lockstep/autograd/variable.h"

namespace lockstep {

class Engine {
 public:
  /// `grad` is the gradient of `root`. On an exception the graph's bookkeeping is reset; gradients
  /// are unspecified.
  static void run(const Variable& root, const Tensor& grad, bool retain_graph);
  /// See awaits_gradient in record.h.
  static bool awaits(const Variable& leaf);
};

}  // namespace lockstep
