// Activation functions.
#pragma once

#include "lockstep/autograd/variable.h"

namespace lockstep {

/// max(x, 0), elementwise; f32, f64, bf16.
Variable relu(const Variable& x);

}  // namespace lockstep
