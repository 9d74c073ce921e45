// Comparisons, and a choice between two tensors, with broadcasting as NumPy does it.
#pragma once

#include "lockstep/tensor/dest.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep {

enum class CompareOp { kGt, kLt, kGe, kLe, kEq, kNe };

struct SelectKernels {
  void (&compare)(CompareOp op, const Tensor& a, const Tensor& b, Tensor& mask);
  void (&where)(const Tensor& mask, const Tensor& a, const Tensor& b, Tensor& y);
  void (&keep_where)(const Tensor& x, const Tensor& mask, bool value, const Dest& y);
};

namespace ops {

/// A mask, u8: 1 where `a op b`, else 0. Operands of one dtype, any but f16. NaN differs from
/// everything, itself too.
Tensor compare(CompareOp op, const Tensor& a, const Tensor& b);
/// With one number for b, converted to a's dtype.
Tensor compare(CompareOp op, const Tensor& a, double b);

/// a where `mask` (u8) is not 0, else b: the shapes of all three are broadcast together. a and b of
/// one dtype: f32, f64 or bf16.
Tensor where(const Tensor& mask, const Tensor& a, const Tensor& b);
/// The gradient of where's a (`chosen` true) or b: grad (+)= grad_y where the mask chose it, else
/// 0, summed over the dimensions in which the operand was repeated.
void where_backward(const Tensor& grad_y, const Tensor& mask, bool chosen, const Dest& grad);

}  // namespace ops
}  // namespace lockstep
