// Dropout.
#pragma once

#include "lockstep/autograd/variable.h"
#include "lockstep/tensor/random.h"

namespace lockstep {

/// Each element is set to 0 with probability p, rounded to a multiple of 2^-24, and else divided by
/// 1 - p. Takes numel() numbers from `rng`; the mask depends on its state alone, not on threads or
/// device, and backward computes it again instead of keeping it. f32, f64, bf16; ArgumentError
/// unless 0 <= p <= 1.
Variable dropout(const Variable& x, double p, Generator& rng);

}  // namespace lockstep
