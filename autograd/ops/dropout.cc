#include "lockstep/autograd/ops/dropout.h"

#include "lockstep/autograd/record.h"
#include "lockstep/tensor/ops/dropout.h"

namespace lockstep {

Variable dropout(const Variable& x, double p, Generator& rng) {
  const DropoutMask mask = ops::dropout_mask(rng.take(x.data().numel()), p);
  const Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  ops::dropout(x.data(), mask, {y});
  return record("dropout", y, {x}, [mask](const Tensor& grad_y, GradSink& sink) {
    ops::dropout(grad_y, mask, sink.dest(0));
  });
}

}  // namespace lockstep
