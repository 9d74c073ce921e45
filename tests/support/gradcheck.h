// gradcheck: an op's backward against central differences of its forward, in f64.
#pragma once

#include "lockstep/autograd/variable.h"

#include <functional>
#include <string>
#include <vector>

namespace lockstep::testing {

using Function = std::function<Variable(const std::vector<Variable>&)>;

struct GradCheckOptions {
  double step = 1e-6;
  /// Bound on ||analytic - numeric||_inf / max(1, ||numeric||_inf): central differences in f64 are
  /// good to about step^2 + 1e-16 / step, so 1e-7 leaves room for curvature.
  double tolerance = 1e-7;
  uint64_t seed = 1;
};

/// Empty when every gradient agrees, else what differs: input, element, analytic, numeric. The loss
/// is the sum of the outputs with random weights, so that an error that an all-one gradient would
/// hide shows. Inputs are f64; each gets its gradient twice, once into fresh memory and once added
/// to what is there, which must double it.
std::string gradcheck(const Function& fn, const std::vector<Tensor>& inputs,
                      GradCheckOptions options = {});

/// f64 (or another floating dtype) numbers in [low, high), the same for the same seed.
Tensor random_tensor(const Shape& shape, uint64_t seed, double low = -1.0, double high = 1.0,
                     DType dtype = DType::kF64);

/// ||a - b||_inf / ||b||_inf, the project's measure of difference; 0 when both are zero, infinite
/// when shapes differ, or either holds a NaN or an infinity that the other has not in its place.
/// Infinities that both have count for nothing.
double relative_difference(const Tensor& a, const Tensor& b);

}  // namespace lockstep::testing
