// The plain matrix product: for f64, which oneDNN lacks, and for whatever else it refuses. Every
// oneDNN result is tested against it.
#pragma once

#include "lockstep/tensor/ops/matmul.h"

namespace lockstep::cpu {

/// As MatmulKernels::matmul, any floating dtype; adds up in f64 for f64, else in f32, which is then
/// the dtype of bias and out, also when a and b are bf16.
void matmul_reference(const MatmulProblem& problem, const Tensor& a, const Tensor& b,
                      const Tensor& bias, const Dest& out);

}  // namespace lockstep::cpu
