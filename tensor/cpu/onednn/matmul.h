// Matrix products by oneDNN.
#pragma once

#include "lockstep/tensor/ops/matmul.h"

namespace lockstep::cpu::onednn {

/// As MatmulKernels::matmul with k > 0, for f32 and bf16 operands. False, and nothing done, when
/// oneDNN cannot do it on this processor (bf16 without AVX-512).
bool matmul(const MatmulProblem& problem, const Tensor& a, const Tensor& b, const Tensor& bias,
            const Dest& out);

/// Whether oneDNN has instructions for bf16 here (AVX-512 BF16 or AMX), within the limits that
/// ONEDNN_MAX_CPU_ISA may set. Without them it emulates bf16, slower than it computes f32.
bool has_fast_bf16();

}  // namespace lockstep::cpu::onednn
