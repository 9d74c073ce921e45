#include "lockstep/tensor/ops/dropout.h"

#include "lockstep/tensor/backend.h"

#include <cmath>

namespace lockstep::ops {

DropoutMask dropout_mask(const PhiloxRange& range, double p) {
  check(p >= 0 && p <= 1, "dropout: wanted a probability in [0, 1], got ", p);
  return {range, static_cast<uint32_t>(std::lround(p * 0x1p24)), p < 1 ? 1 / (1 - p) : 0};
}

void dropout(const Tensor& x, const DropoutMask& mask, const Dest& y) {
  check(x.shape() == y.out.shape() && x.dtype() == y.out.dtype(), "dropout: from ",
        name_of(x.dtype()), " ", x.shape(), " to ", name_of(y.out.dtype()), " ", y.out.shape());
  backend(x.device()).dropout.apply(x, mask, y);
}

}  // namespace lockstep::ops
