// Dropout with a mask that is computed, never stored.
#pragma once

#include "lockstep/tensor/dest.h"
#include "lockstep/tensor/random.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep {

/// What a kernel needs: element i is kept when (range.bits(i) >> 8) >= threshold, and then
/// multiplied by `factor`.
struct DropoutMask {
  PhiloxRange range;
  uint32_t threshold = 0;
  double factor = 1;
};

struct DropoutKernels {
  void (&apply)(const Tensor& x, const DropoutMask& mask, const Dest& y);
};

namespace ops {

/// Element i is dropped with probability p, rounded to a multiple of 2^-24; kept ones are divided
/// by 1 - p (inverted dropout: Srivastava et al., "Dropout", JMLR 15, 2014, section 10). `range`
/// holds a number for each element. Throws ArgumentError unless 0 <= p <= 1.
DropoutMask dropout_mask(const PhiloxRange& range, double p);
/// y (+)= x with the mask applied: forward, and with the gradient for x also backward. f32, f64,
/// bf16.
void dropout(const Tensor& x, const DropoutMask& mask, const Dest& y);

}  // namespace ops
}  // namespace lockstep
