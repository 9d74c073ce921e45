#include "lockstep/autograd/ops/matmul.h"

#include "lockstep/autograd/ops/policy.h"
#include "lockstep/autograd/record.h"

namespace lockstep {
namespace {

Tensor as_rows(const Tensor& x) {
  return x.reshape(Shape{x.shape().numel(0, x.ndim() - 1), x.dim(-1)});
}

Dest as_rows(const Dest& dest) { return {as_rows(dest.out), dest.accumulate}; }

}  // namespace

Variable matmul(const Variable& a, const Variable& b, MatmulOptions options) {
  const Tensor a_values = policy::operand(a), b_values = policy::operand(b);
  const Tensor y = ops::matmul(a_values, b_values, options);
  return record("matmul", y, {a, b},
                [a = Saved(a_values), b = Saved(b_values), ta = options.transpose_a,
                 tb = options.transpose_b](const Tensor& grad_y, GradSink& sink) {
                  // With A = op(a), B = op(b): dA = dY B^T and dB = A^T dY, each transposed where
                  // its operand is.
                  if (sink.wants(0) && !ta)
                    ops::matmul(grad_y, b.get(), {false, !tb}, sink.dest(0));
                  if (sink.wants(0) && ta) ops::matmul(b.get(), grad_y, {tb, true}, sink.dest(0));
                  if (sink.wants(1) && !tb)
                    ops::matmul(a.get(), grad_y, {!ta, false}, sink.dest(1));
                  if (sink.wants(1) && tb) ops::matmul(grad_y, a.get(), {true, ta}, sink.dest(1));
                });
}

Variable linear(const Variable& x, const Variable& weight, const Variable& bias) {
  const Tensor x_values = policy::operand(x), w = policy::operand(weight);
  const Tensor y = ops::linear(x_values, w, bias.defined() ? bias.data() : Tensor());
  return record("linear", y, {x, weight, bias},
                [x = Saved(x_values), weight = Saved(w)](const Tensor& grad_y, GradSink& sink) {
                  const Tensor rows = as_rows(grad_y);
                  if (sink.wants(1) && sink.wants(2)) {  // of other shapes: not one variable
                    const Dest grad_weight = sink.dest(1), grad_bias = sink.dest(2);
                    ops::linear_backward_weight(rows, as_rows(x.get()), grad_weight, grad_bias);
                  } else if (sink.wants(1)) {
                    ops::matmul(rows, as_rows(x.get()), {.transpose_a = true}, sink.dest(1));
                  } else if (sink.wants(2)) {
                    ops::sum_rows(rows, sink.dest(2));
                  }
                  if (sink.wants(0)) ops::matmul(rows, weight.get(), {}, as_rows(sink.dest(0)));
                });
}

}  // namespace lockstep
