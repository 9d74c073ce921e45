#include "lockstep/autograd/ops/activation.h"

#include "lockstep/autograd/record.h"
#include "lockstep/tensor/ops/activation.h"

namespace lockstep {

Variable relu(const Variable& x) {
  const Tensor y = ops::relu(x.data());
  // The sign of the result tells where the gradient passes, so x itself need not be kept.
  return record("relu", y, {x}, [saved_y = Saved(y)](const Tensor& grad_y, GradSink& sink) {
    ops::relu_backward(grad_y, saved_y.get(), sink.dest(0));
  });
}

}  // namespace lockstep
