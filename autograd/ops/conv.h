// Convolution.
#pragma once

#include "lockstep/autograd/variable.h"
#include "lockstep/tensor/ops/conv.h"

namespace lockstep {

/// x [N, H, W, I], weight [O, KH, KW, I / groups], bias [O] or an undefined Variable; the result is
/// [N, OH, OW, O]. Dtypes, sizes and errors: ops::conv2d.
Variable conv2d(const Variable& x, const Variable& weight, const Variable& bias = {},
                const Conv2dOptions& options = {});

}  // namespace lockstep
