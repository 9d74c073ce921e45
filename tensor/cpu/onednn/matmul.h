// Matrix products by oneDNN.
#pragma once

#include "lockstep/tensor/ops/matmul.h"

namespace lockstep::cpu::onednn {

/// As MatmulKernels::matmul with k > 0, for f32 and bf16. False, and nothing done, when oneDNN
/// cannot do it on this processor (bf16 without AVX-512).
bool matmul(const MatmulProblem& problem, const Tensor& a, const Tensor& b, const Tensor& bias,
            const Dest& out);

}  // namespace lockstep::cpu::onednn
