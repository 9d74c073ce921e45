#include "lockstep/autograd/ops/reduce.h"

#include "lockstep/autograd/ops/policy.h"
#include "lockstep/autograd/record.h"
#include "lockstep/tensor/ops/reduce.h"

namespace lockstep {
namespace {

/// y = factor * sum of x, with `kept` the shape of y before the reduced dimensions are dropped.
Variable scaled_sum(const char* op, const Variable& any_x, double factor, const Shape& kept,
                    const Shape& shape) {
  const Variable x = policy::widen(any_x);
  const Tensor y = Tensor::empty(kept, x.dtype(), x.device());
  ops::sum_to(x.data(), factor, {y});
  return record(op, y.reshape(shape), {x}, [factor, kept](const Tensor& grad_y, GradSink& sink) {
    ops::broadcast_to(grad_y.reshape(kept), factor, sink.dest(0));
  });
}

Variable over(const char* op, const Variable& x, const std::vector<int>& dims, bool keepdim,
              bool average) {
  const Shape kept = ops::reduced_shape(x.shape(), dims, op);
  double factor = 1;
  if (average) {
    for (int dim : dims) factor /= static_cast<double>(x.dim(dim));
  }
  return scaled_sum(op, x, factor, kept, keepdim ? kept : ops::without_dims(x.shape(), dims));
}

}  // namespace

Variable sum(const Variable& x) { return scaled_sum("sum", x, 1.0, {}, {}); }
Variable mean(const Variable& x) {
  return scaled_sum("mean", x, 1.0 / static_cast<double>(x.data().numel()), {}, {});
}
Variable sum(const Variable& x, const std::vector<int>& dims, bool keepdim) {
  return over("sum", x, dims, keepdim, false);
}
Variable mean(const Variable& x, const std::vector<int>& dims, bool keepdim) {
  return over("mean", x, dims, keepdim, true);
}

MaxOutput max(const Variable& x, int dim, bool keepdim) {
  const ops::MaxResult result = ops::max(x.data(), dim, keepdim);
  return {record("max", result.values, {x},
                 [indices = Saved(result.indices), dim](const Tensor& grad, GradSink& sink) {
                   ops::max_backward(grad, indices.get(), dim, sink.dest(0));
                 }),
          result.indices};
}

}  // namespace lockstep
