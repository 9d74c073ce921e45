// The dropout layer (Srivastava et al., JMLR 2014).
#pragma once

#include "lockstep/autograd/ops/dropout.h"
#include "lockstep/nn/module.h"
#include "lockstep/tensor/random.h"

namespace lockstep {

/// In training each element is 0 with probability p, else divided by 1 - p; in evaluation nothing
/// happens.
class Dropout final : public Layer {
 public:
  /// 0 <= p <= 1, else ArgumentError. `rng` must outlive the layer: layers that share a generator
  /// draw from it in the order of their calls, and its state is all that a resumed run needs.
  Dropout(double p, Generator& rng) : p_(p), rng_(rng) {
    check(p >= 0 && p <= 1, "Dropout: wanted 0 <= p <= 1, got ", p);
  }
  Variable forward(const Variable& x) override { return p() > 0 ? dropout(x, p(), rng_) : x; }
  /// The probability that counts now: 0 in evaluation.
  double p() const { return training() ? p_ : 0; }
  /// For an op that drops while it does something else.
  Generator& generator() const { return rng_; }

 private:
  double p_;
  Generator& rng_;
};

}  // namespace lockstep
