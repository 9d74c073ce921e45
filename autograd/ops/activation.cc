#include "lockstep/autograd/ops/activation.h"

#include "lockstep/autograd/ops/policy.h"
#include "lockstep/autograd/record.h"
#include "lockstep/tensor/ops/activation.h"
#include "lockstep/tensor/ops/unary.h"

namespace lockstep {
namespace {

Variable unary(const char* name, UnaryOp op, const Variable& x) {
  const Tensor y = ops::unary(op, x.data());
  return record(name, y, {x},
                [op, saved = Saved(ops::saves_result(op) ? y : x.data())](const Tensor& grad_y,
                                                                          GradSink& sink) {
                  ops::unary_backward(op, grad_y, saved.get(), sink.dest(0));
                });
}

}  // namespace

Variable relu(const Variable& x) {
  const Tensor y = ops::relu(x.data());
  // The sign of the result tells where the gradient passes, so x itself need not be kept.
  return record("relu", y, {x}, [saved_y = Saved(y)](const Tensor& grad_y, GradSink& sink) {
    ops::relu_backward(grad_y, saved_y.get(), sink.dest(0));
  });
}

Variable gelu(const Variable& x, GeluApproximation approximation) {
  return unary("gelu",
               approximation == GeluApproximation::kTanh ? UnaryOp::kGeluTanh : UnaryOp::kGelu, x);
}
Variable sigmoid(const Variable& x) { return unary("sigmoid", UnaryOp::kSigmoid, x); }
Variable tanh(const Variable& x) { return unary("tanh", UnaryOp::kTanh, x); }
Variable silu(const Variable& x) { return unary("silu", UnaryOp::kSilu, x); }
Variable log(const Variable& x) { return unary("log", UnaryOp::kLog, policy::widen(x)); }
Variable exp(const Variable& x) { return unary("exp", UnaryOp::kExp, policy::widen(x)); }
Variable sqrt(const Variable& x) { return unary("sqrt", UnaryOp::kSqrt, policy::widen(x)); }

}  // namespace lockstep
