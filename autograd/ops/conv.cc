#include "lockstep/autograd/ops/conv.h"

#include "lockstep/autograd/ops/policy.h"
#include "lockstep/autograd/record.h"

namespace lockstep {

Variable conv2d(const Variable& x, const Variable& weight, const Variable& bias,
                const Conv2dOptions& options) {
  const Tensor x_values = policy::operand(x), w = policy::operand(weight);
  Tensor y = ops::conv2d(x_values, w, bias.defined() ? bias.data() : Tensor(), options);
  return record(
      "conv2d", std::move(y), {x, weight, bias},
      [x = Saved(x_values), weight = Saved(w), options](const Tensor& grad_y, GradSink& sink) {
        if (sink.wants(1)) ops::conv2d_backward_weight(grad_y, x.get(), options, sink.dest(1));
        if (sink.wants(2)) ops::conv2d_backward_bias(grad_y, sink.dest(2));
        if (sink.wants(0)) ops::conv2d_backward_data(grad_y, weight.get(), options, sink.dest(0));
      });
}

}  // namespace lockstep
