// Where a kernel puts a gradient.
#pragma once

#include "lockstep/tensor/tensor.h"

namespace lockstep {

/// A destination of known shape, dtype and device: overwrite it, or add to what is there. Gradient
/// kernels take one so that they write straight into the memory that is reduced between ranks,
/// without a copy.
struct Dest {
  Tensor out;
  bool accumulate = false;
};

}  // namespace lockstep
