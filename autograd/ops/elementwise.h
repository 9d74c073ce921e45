// Arithmetic, element by element, with broadcasting as NumPy does it: shapes are aligned at their
// last dimension, and an extent of 1 (or none) is repeated; its gradient is summed over the
// repetitions. f32, f64, bf16; operands of one dtype and device, else ArgumentError.
#pragma once

#include "lockstep/autograd/variable.h"

namespace lockstep {

Variable add(const Variable& a, const Variable& b);
Variable sub(const Variable& a, const Variable& b);
Variable mul(const Variable& a, const Variable& b);
Variable div(const Variable& a, const Variable& b);
/// factor * x.
Variable scale(const Variable& x, double factor);
/// x + value.
Variable add_scalar(const Variable& x, double value);
/// -x.
Variable neg(const Variable& x);

inline Variable operator+(const Variable& a, const Variable& b) { return add(a, b); }
inline Variable operator-(const Variable& a, const Variable& b) { return sub(a, b); }
inline Variable operator*(const Variable& a, const Variable& b) { return mul(a, b); }
inline Variable operator/(const Variable& a, const Variable& b) { return div(a, b); }
inline Variable operator-(const Variable& x) { return neg(x); }

}  // namespace lockstep
