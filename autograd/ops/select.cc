#include "lockstep/autograd/ops/select.h"

#include "lockstep/autograd/ops/policy.h"
#include "lockstep/autograd/record.h"

namespace lockstep {

Variable where(const Tensor& mask, const Variable& any_a, const Variable& any_b) {
  const Variable a = policy::meet(any_a, any_b.dtype()), b = policy::meet(any_b, any_a.dtype());
  return record("where", ops::where(mask, a.data(), b.data()), {a, b},
                [mask = Saved(mask)](const Tensor& grad_y, GradSink& sink) {
                  if (sink.wants(0)) ops::where_backward(grad_y, mask.get(), true, sink.dest(0));
                  if (sink.wants(1)) ops::where_backward(grad_y, mask.get(), false, sink.dest(1));
                });
}

}  // namespace lockstep
