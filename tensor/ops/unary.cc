#include "lockstep/tensor/ops/unary.h"

#include "lockstep/tensor/backend.h"
#include "lockstep/tensor/ops/check_device.h"

namespace lockstep::ops {

Tensor unary(UnaryOp op, const Tensor& x) {
  Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  backend(x.device()).unary.forward(op, x, y);
  return y;
}

bool saves_result(UnaryOp op) {
  return op == UnaryOp::kSigmoid || op == UnaryOp::kTanh || op == UnaryOp::kExp ||
         op == UnaryOp::kSqrt;
}

void unary_backward(UnaryOp op, const Tensor& grad_y, const Tensor& saved, const Dest& grad_x) {
  check(grad_y.shape() == saved.shape() && grad_x.out.shape() == saved.shape() &&
            grad_y.dtype() == saved.dtype() && grad_x.out.dtype() == saved.dtype(),
        "unary_backward: wanted three tensors of one shape and dtype, got ",
        name_of(grad_y.dtype()), " ", grad_y.shape(), ", ", name_of(saved.dtype()), " ",
        saved.shape(), ", ", name_of(grad_x.out.dtype()), " ", grad_x.out.shape());
  check_device("unary_backward", saved, grad_y, "grad_y");
  backend(saved.device()).unary.backward(op, grad_y, saved, grad_x);
}

}  // namespace lockstep::ops
