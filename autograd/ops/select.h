// Comparisons, and a choice between two variables, with broadcasting as NumPy does it.
#pragma once

#include "lockstep/autograd/variable.h"
#include "lockstep/tensor/ops/select.h"

namespace lockstep {

// A mask, u8: 1 where the comparison holds, else 0. It has no gradient. Operands of one dtype.

inline Tensor gt(const Variable& a, const Variable& b) {
  return ops::compare(CompareOp::kGt, a.data(), b.data());
}
inline Tensor lt(const Variable& a, const Variable& b) {
  return ops::compare(CompareOp::kLt, a.data(), b.data());
}
inline Tensor ge(const Variable& a, const Variable& b) {
  return ops::compare(CompareOp::kGe, a.data(), b.data());
}
inline Tensor le(const Variable& a, const Variable& b) {
  return ops::compare(CompareOp::kLe, a.data(), b.data());
}
inline Tensor eq(const Variable& a, const Variable& b) {
  return ops::compare(CompareOp::kEq, a.data(), b.data());
}
inline Tensor ne(const Variable& a, const Variable& b) {
  return ops::compare(CompareOp::kNe, a.data(), b.data());
}

// With one number, converted to a's dtype.

inline Tensor gt(const Variable& a, double b) { return ops::compare(CompareOp::kGt, a.data(), b); }
inline Tensor lt(const Variable& a, double b) { return ops::compare(CompareOp::kLt, a.data(), b); }
inline Tensor ge(const Variable& a, double b) { return ops::compare(CompareOp::kGe, a.data(), b); }
inline Tensor le(const Variable& a, double b) { return ops::compare(CompareOp::kLe, a.data(), b); }
inline Tensor eq(const Variable& a, double b) { return ops::compare(CompareOp::kEq, a.data(), b); }
inline Tensor ne(const Variable& a, double b) { return ops::compare(CompareOp::kNe, a.data(), b); }

/// a where `mask` (u8) is not 0, else b: the shapes of all three are broadcast together, and a and
/// b have one dtype: f32, f64 or bf16. Each gets the gradient where it was chosen.
Variable where(const Tensor& mask, const Variable& a, const Variable& b);

}  // namespace lockstep
