// Pooling.
#pragma once

#include "lockstep/autograd/variable.h"
#include "lockstep/tensor/ops/pool.h"

namespace lockstep {

/// The largest of each window of x [N, H, W, C]; the gradient goes to the first of equal ones.
/// Errors: ops::max_pool2d.
Variable max_pool2d(const Variable& x, const Pool2dOptions& options);
/// The mean of each window of x [N, H, W, C]; zeros from the padding count.
Variable avg_pool2d(const Variable& x, const Pool2dOptions& options);
/// [N, C] from x [N, H, W, C].
Variable global_avg_pool2d(const Variable& x);

}  // namespace lockstep
