// Conversion between floating dtypes.
#pragma once

#include "lockstep/autograd/variable.h"

namespace lockstep {

/// x rounded to `dtype` (f32, f64 or bf16); x itself when it has that already. The gradient is
/// converted back.
Variable cast(const Variable& x, DType dtype);

}  // namespace lockstep
