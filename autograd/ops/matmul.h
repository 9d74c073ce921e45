// Matrix products and the linear layer's function.
#pragma once

#include "lockstep/autograd/variable.h"
#include "lockstep/tensor/ops/matmul.h"

namespace lockstep {

/// op(a) op(b): a is [..., m, k] ([..., k, m] with transpose_a), b is [..., k, n] ([..., n, k] with
/// transpose_b), the result [..., m, n]. The leading dimensions are equal, or one operand has none
/// and serves all of the other's. f32, f64 or bf16, both the same.
Variable matmul(const Variable& a, const Variable& b, MatmulOptions options = {});

/// x weight^T + bias: x [..., in], weight [out, in], bias [out] or undefined; the result is [...,
/// out]. The gradients of weight and bias are written straight into their destinations.
Variable linear(const Variable& x, const Variable& weight, const Variable& bias = Variable());

}  // namespace lockstep
