// Softmax and its logarithm.
#pragma once

#include "lockstep/autograd/variable.h"

namespace lockstep {

/// e^x / sum(e^x) over dimension `dim` (negative from the end); f32, f64, bf16.
Variable softmax(const Variable& x, int dim);

/// log(softmax(x, dim)), computed without its cancellation.
Variable log_softmax(const Variable& x, int dim);

}  // namespace lockstep
