#include "lockstep/autograd/ops/elementwise.h"

#include "lockstep/autograd/ops/policy.h"
#include "lockstep/autograd/record.h"
#include "lockstep/tensor/ops/elementwise.h"
#include "lockstep/tensor/ops/reduce.h"

namespace lockstep {
namespace {

/// The gradient of an operand that went into the result unchanged.
void pass_on(const Tensor& grad_y, const Shape& operand, GradSink& sink, int i) {
  if (!sink.wants(i)) return;
  if (grad_y.shape() == operand) {
    sink.give(i, grad_y);
  } else {
    ops::sum_to(grad_y, 1.0, sink.dest(i));
  }
}

struct Pair {
  Variable a, b;
};
Pair meet(const Variable& a, const Variable& b) {
  return {policy::meet(a, b.dtype()), policy::meet(b, a.dtype())};
}

/// What backward needs of `x` only if `other` wants a gradient.
Saved save_for(const Variable& other, const Variable& x) {
  return other.requires_grad() ? Saved(x.data()) : Saved();
}

}  // namespace

Variable add(const Variable& any_a, const Variable& any_b) {
  const auto [a, b] = meet(any_a, any_b);
  return record("add", ops::add(a.data(), b.data()), {a, b},
                [shape_a = a.shape(), shape_b = b.shape()](const Tensor& grad_y, GradSink& sink) {
                  pass_on(grad_y, shape_a, sink, 0);
                  pass_on(grad_y, shape_b, sink, 1);
                });
}

Variable sub(const Variable& any_a, const Variable& any_b) {
  const auto [a, b] = meet(any_a, any_b);
  return record("sub", ops::sub(a.data(), b.data()), {a, b},
                [shape_a = a.shape()](const Tensor& grad_y, GradSink& sink) {
                  pass_on(grad_y, shape_a, sink, 0);
                  if (sink.wants(1)) ops::sum_to(grad_y, -1.0, sink.dest(1));
                });
}

Variable mul(const Variable& any_a, const Variable& any_b) {
  const auto [a, b] = meet(any_a, any_b);
  return record(
      "mul", ops::mul(a.data(), b.data()), {a, b},
      [saved_a = save_for(b, a), saved_b = save_for(a, b)](const Tensor& grad_y, GradSink& sink) {
        if (sink.wants(0)) ops::mul_backward(grad_y, saved_b.get(), sink.dest(0));
        if (sink.wants(1)) ops::mul_backward(grad_y, saved_a.get(), sink.dest(1));
      });
}

Variable div(const Variable& any_a, const Variable& any_b) {
  const auto [a, b] = meet(any_a, any_b);
  return record(
      "div", ops::div(a.data(), b.data()), {a, b},
      [saved_a = save_for(b, a), saved_b = Saved(b.data())](const Tensor& grad_y, GradSink& sink) {
        if (sink.wants(0)) ops::div_backward_a(grad_y, saved_b.get(), sink.dest(0));
        if (sink.wants(1)) ops::div_backward_b(grad_y, saved_a.get(), saved_b.get(), sink.dest(1));
      });
}

Variable scale(const Variable& x, double factor) {
  return record("scale", ops::affine(x.data(), factor, 0.0), {x},
                [factor](const Tensor& grad_y, GradSink& sink) {
                  ops::sum_to(grad_y, factor, sink.dest(0));
                });
}

Variable add_scalar(const Variable& x, double value) {
  return record("add_scalar", ops::affine(x.data(), 1.0, value), {x},
                [](const Tensor& grad_y, GradSink& sink) { sink.give(0, grad_y); });
}

Variable neg(const Variable& x) { return scale(x, -1.0); }

}  // namespace lockstep
