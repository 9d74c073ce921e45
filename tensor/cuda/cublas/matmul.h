// Matrix products by cuBLASLt: f32 (in TF32 where allow_tf32() says so), f64 and bf16.
#pragma once

#include "lockstep/tensor/ops/matmul.h"

namespace lockstep::cuda {

/// What the library has no kernel for, and sums over rows, go to our own kernels.
extern const MatmulKernels kLtMatmul;

}  // namespace lockstep::cuda
