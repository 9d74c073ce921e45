// Activation checkpointing: a part of the model forgets what its backward needs and computes it
// again (Chen, Xu, Zhang and Guestrin, "Training deep nets with sublinear memory cost", 2016).
#pragma once

#include "lockstep/autograd/variable.h"

#include <functional>
#include <vector>

namespace lockstep {

using CheckpointFn = std::function<Variable(const std::vector<Variable>& inputs)>;

/// fn(inputs), of which only the inputs and the result are kept. Backward calls fn again, with
/// recording, and goes on through what it recorded, so gradients and the order in which they are
/// added up are those of fn(inputs) itself, bit for bit.
///
///   y = checkpoint([&](const auto& x) { return block(x[0]); }, {y});
///
/// - Parameters and other variables that fn uses need not be named: forward notes those that the
///   result depends on, and their gradients and hooks come as usual, each as soon as it is
///   complete. Data parallelism and awaits_gradient know of them from the start.
/// - Random ops draw the same numbers: the state of each Generator that forward drew from is put
///   back for the second call, and afterwards is what it was before it. The generators must live
///   until backward, unless they are fn's own.
/// - The precision (Autocast) is that of forward, wherever backward is called.
/// - What forward counts, fn must not count twice: see recomputing(). Batch normalisation and layer
///   drop ask it: running statistics, batch counts and decisions move in forward only.
/// - fn must do the same both times, and is kept (with what it refers to) until backward. Inputs or
///   parameters that changed in place meanwhile, and a second call that depends on other variables,
///   throw ArgumentError from backward.
///
/// Under NoGrad, or within another checkpoint's forward, it is a plain call. They can be nested.
Variable checkpoint(CheckpointFn fn, std::vector<Variable> inputs);

/// Whether a checkpoint's function is being called for the second time on this thread: state that
/// forward moves (running statistics, counters) stays as it is then.
bool recomputing();

}  // namespace lockstep
