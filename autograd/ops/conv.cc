#include "lockstep/autograd/ops/conv.h"

#include "lockstep/autograd/record.h"

namespace lockstep {

Variable conv2d(const Variable& x, const Variable& weight, const Variable& bias,
                const Conv2dOptions& options) {
  Tensor y = ops::conv2d(x.data(), weight.data(), bias.defined() ? bias.data() : Tensor(), options);
  return record("conv2d", std::move(y), {x, weight, bias},
                [x = Saved(x.data()), weight = Saved(weight.data()), options](const Tensor& grad_y,
                                                                              GradSink& sink) {
                  if (sink.wants(1))
                    ops::conv2d_backward_weight(grad_y, x.get(), options, sink.dest(1));
                  if (sink.wants(2)) ops::conv2d_backward_bias(grad_y, sink.dest(2));
                  if (sink.wants(0))
                    ops::conv2d_backward_data(grad_y, weight.get(), options, sink.dest(0));
                });
}

}  // namespace lockstep
