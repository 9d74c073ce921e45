// Clipping by the norm of all gradients together (Pascanu et al., "On the difficulty of training
// recurrent neural networks", ICML 2013).
#pragma once

#include "lockstep/autograd/named_parameter.h"

#include <span>

namespace lockstep {

/// Returns the L2 norm over the gradients of all `parameters` (those without a gradient are left
/// out; each is to be named once). If max_norm / (norm + 1e-6) is below 1, as PyTorch has it, the
/// gradients are multiplied by it in place; an infinite max_norm only measures. A norm that is NaN
/// or infinite is returned with the gradients untouched, so that a loop can leave the step out.
///
/// The squares are added up in f64, in an order that depends on the list and its shapes alone: the
/// same gradients give the same bits, and so the same decision on every rank, whatever the number
/// of threads and however they lie in memory. Call it after backward: what data parallelism leaves
/// is the gradient of all ranks.
///
/// Throws ArgumentError unless max_norm >= 0, and for gradients on more than one device.
double clip_grad_norm(std::span<const Variable> parameters, double max_norm);
double clip_grad_norm(std::span<const NamedParameter> parameters, double max_norm);

/// The same for whoever does not ask for the norm, so that nobody waits for a device.
void clip_grads(std::span<const NamedParameter> parameters, double max_norm);

}  // namespace lockstep
