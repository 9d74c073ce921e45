#include "lockstep/autograd/ops/softmax.h"

#include "lockstep/autograd/ops/policy.h"
#include "lockstep/autograd/record.h"
#include "lockstep/tensor/ops/softmax.h"

namespace lockstep {

Variable softmax(const Variable& any_x, int dim) {
  const Variable x = policy::widen(any_x);
  const Tensor y = ops::softmax(x.data(), dim);
  return record("softmax", y, {x}, [y = Saved(y), dim](const Tensor& grad_y, GradSink& sink) {
    ops::softmax_backward(grad_y, y.get(), dim, sink.dest(0));
  });
}

Variable log_softmax(const Variable& any_x, int dim) {
  const Variable x = policy::widen(any_x);
  const Tensor y = ops::log_softmax(x.data(), dim);
  return record("log_softmax", y, {x}, [y = Saved(y), dim](const Tensor& grad_y, GradSink& sink) {
    ops::log_softmax_backward(grad_y, y.get(), dim, sink.dest(0));
  });
}

}  // namespace lockstep
