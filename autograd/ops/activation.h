// Activation functions and other functions of one number, elementwise; f32, f64, bf16.
#pragma once

#include "lockstep/autograd/variable.h"

namespace lockstep {

/// max(x, 0).
Variable relu(const Variable& x);

enum class GeluApproximation {
  kNone,  // x * Phi(x), Phi the normal distribution function
  kTanh,  // x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))
};
/// Hendrycks and Gimpel, "Gaussian error linear units", 2016.
Variable gelu(const Variable& x, GeluApproximation approximation = GeluApproximation::kNone);
/// 1 / (1 + e^-x).
Variable sigmoid(const Variable& x);
Variable tanh(const Variable& x);
/// x * sigmoid(x), also called swish.
Variable silu(const Variable& x);
/// The natural logarithm: of 0 -infinity, of less NaN.
Variable log(const Variable& x);
Variable exp(const Variable& x);
/// Of less than 0: NaN. Its gradient at 0 is infinite.
Variable sqrt(const Variable& x);

}  // namespace lockstep
