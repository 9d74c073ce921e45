// In which type an op computes under Autocast (docs/mixed_precision.md): an op takes its operands
// through one of these, or as they are. Without a scope, and for f64, nothing changes. Internal to
// autograd/ops.
#pragma once

#include "lockstep/autograd/variable.h"

namespace lockstep::policy {

/// For products, whose kernels read bf16 and write f32 gradients: the value of an f32 operand in
/// bf16. That of a parameter is its shadow, made once for each optimizer's step; of anything else a
/// fresh conversion. The gradient of x stays f32, and is to be written so.
Tensor operand(const Variable& x);
/// For ops that read and write bf16 with f32 inside: x in bf16.
Variable narrow(const Variable& x);
/// For sums and losses, whose result would lose in bf16: a bf16 x in f32.
Variable widen(const Variable& x);
/// For arithmetic on two operands, one f32 and one bf16: `x` in f32 if it is the bf16 one. f32 has
/// every value of bf16, so nothing is lost: a sum of many layers may stay in f32 on purpose.
Variable meet(const Variable& x, DType other);

}  // namespace lockstep::policy
