#include "lockstep/tensor/ops/activation.h"

#include "lockstep/tensor/backend.h"

namespace lockstep::ops {

Tensor relu(const Tensor& x) {
  Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  backend(x.device()).activation.relu(x, y);
  return y;
}

void relu_backward(const Tensor& grad_y, const Tensor& y, const Dest& grad_x) {
  check(grad_y.shape() == y.shape() && grad_x.out.shape() == y.shape(),
        "relu_backward: wanted three equal shapes, got ", grad_y.shape(), ", ", y.shape(), ", ",
        grad_x.out.shape());
  backend(y.device()).activation.relu_backward(grad_y, y, grad_x);
}

}  // namespace lockstep::ops
