#include "lockstep/autograd/ops/pool.h"

#include "lockstep/autograd/record.h"

namespace lockstep {

Variable max_pool2d(const Variable& x, const Pool2dOptions& options) {
  const ops::MaxPool2dResult result = ops::max_pool2d(x.data(), options);
  return record("max_pool2d", result.y, {x},
                [argmax = Saved(result.argmax), options](const Tensor& grad_y, GradSink& sink) {
                  ops::max_pool2d_backward(grad_y, argmax.get(), options, sink.dest(0));
                });
}

Variable avg_pool2d(const Variable& x, const Pool2dOptions& options) {
  return record("avg_pool2d", ops::avg_pool2d(x.data(), options), {x},
                [options](const Tensor& grad_y, GradSink& sink) {
                  ops::avg_pool2d_backward(grad_y, options, sink.dest(0));
                });
}

Variable global_avg_pool2d(const Variable& x) {
  return record("global_avg_pool2d", ops::global_avg_pool2d(x.data()), {x},
                [](const Tensor& grad_y, GradSink& sink) {
                  ops::global_avg_pool2d_backward(grad_y, sink.dest(0));
                });
}

}  // namespace lockstep
