#include "lockstep/tensor/ops/softmax.h"

#include "lockstep/tensor/backend.h"

namespace lockstep::ops {
namespace {

SoftmaxExtents extents_of(const Tensor& x, int dim, const char* op) {
  const int axis = x.shape().axis(dim, op);
  return {x.shape().numel(0, axis), x.dim(axis), x.shape().numel(axis + 1, x.ndim())};
}

void check_backward(const Tensor& grad_y, const Tensor& y, const Dest& grad_x, const char* op) {
  check(grad_y.shape() == y.shape() && grad_x.out.shape() == y.shape(), op,
        ": wanted three equal shapes, got ", grad_y.shape(), ", ", y.shape(), ", ",
        grad_x.out.shape());
}

}  // namespace

Tensor softmax(const Tensor& x, int dim) {
  const SoftmaxExtents extents = extents_of(x, dim, "softmax");
  Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  backend(x.device()).softmax.softmax(x, extents, y);
  return y;
}

Tensor log_softmax(const Tensor& x, int dim) {
  const SoftmaxExtents extents = extents_of(x, dim, "log_softmax");
  Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  backend(x.device()).softmax.log_softmax(x, extents, y);
  return y;
}

void softmax_backward(const Tensor& grad_y, const Tensor& y, int dim, const Dest& grad_x) {
  check_backward(grad_y, y, grad_x, "softmax_backward");
  backend(y.device())
      .softmax.softmax_backward(grad_y, y, extents_of(y, dim, "softmax_backward"), grad_x);
}

void log_softmax_backward(const Tensor& grad_y, const Tensor& y, int dim, const Dest& grad_x) {
  check_backward(grad_y, y, grad_x, "log_softmax_backward");
  backend(y.device())
      .softmax.log_softmax_backward(grad_y, y, extents_of(y, dim, "log_softmax_backward"), grad_x);
}

}  // namespace lockstep::ops
