// Moving parameters and gradients into arenas, so that an optimizer's pass covers many at once.
// Data parallelism does this by its own plan; a program of one process does it with these.
#pragma once

#include "lockstep/autograd/variable.h"

#include <span>

namespace lockstep {

/// Moves the values of `parameters` into one block of memory in the given order (layout:
/// tensor/arena.h, padding zero) and rebinds them to it; gradients and hooks stay. Returns the
/// block. All must be different leaves of one floating dtype and one device, else ArgumentError,
/// and nothing has moved.
Tensor move_into_arena(std::span<Variable> parameters);

/// Binds the gradients of `parameters` to slices of one zeroed block in the same layout; gradients
/// so far are forgotten. Returns the block. The same conditions.
Tensor bind_gradients_to_arena(std::span<Variable> parameters);

}  // namespace lockstep
