#include "lockstep/tensor/ops/elementwise.h"

#include "lockstep/tensor/backend.h"
#include "lockstep/tensor/ops/check_device.h"

#include <algorithm>
#include <array>

namespace lockstep::ops {
namespace {

void check_same_kind(const Tensor& a, const Tensor& b, const char* op) {
  check(a.dtype() == b.dtype(), op, ": operands of ", name_of(a.dtype()), " and ",
        name_of(b.dtype()), "; cast one of them");
  check_device(op, a, b, "the second operand");
}

void check_gradient(const Tensor& grad_y, const Tensor& operand, const Dest& grad, const char* op) {
  check_same_kind(grad_y, operand, op);
  check_same_kind(grad_y, grad.out, op);
  check(can_broadcast(operand.shape(), grad_y.shape()) &&
            can_broadcast(grad.out.shape(), grad_y.shape()),
        op, ": operands of ", operand.shape(), " and ", grad.out.shape(),
        " do not give a result of ", grad_y.shape());
}

Tensor binary(BinaryOp op, const char* name, const Tensor& a, const Tensor& b) {
  check_same_kind(a, b, name);
  Tensor y = Tensor::empty(broadcast_shapes(a.shape(), b.shape(), name), a.dtype(), a.device());
  backend(a.device()).elementwise.binary(op, a, b, y);
  return y;
}

}  // namespace

Shape broadcast_shapes(const Shape& a, const Shape& b, const char* op) {
  const int ndim = std::max(a.ndim(), b.ndim());
  std::array<int64_t, Shape::kMaxDims> extent{};
  for (int i = 1; i <= ndim; ++i) {
    const int64_t of_a = i <= a.ndim() ? a.dim(-i) : 1;
    const int64_t of_b = i <= b.ndim() ? b.dim(-i) : 1;
    check(of_a == of_b || of_a == 1 || of_b == 1, op, ": shapes ", a, " and ", b,
          " cannot be broadcast together: extents ", of_a, " and ", of_b);
    extent[static_cast<size_t>(ndim - i)] = of_a == 1 ? of_b : of_a;
  }
  return Shape(extent.data(), ndim);
}

bool can_broadcast(const Shape& from, const Shape& to) {
  if (from.ndim() > to.ndim()) return false;
  for (int i = 1; i <= from.ndim(); ++i) {
    if (from.dim(-i) != to.dim(-i) && from.dim(-i) != 1) return false;
  }
  return true;
}

Tensor add(const Tensor& a, const Tensor& b) { return binary(BinaryOp::kAdd, "add", a, b); }
Tensor sub(const Tensor& a, const Tensor& b) { return binary(BinaryOp::kSub, "sub", a, b); }
Tensor mul(const Tensor& a, const Tensor& b) { return binary(BinaryOp::kMul, "mul", a, b); }
Tensor div(const Tensor& a, const Tensor& b) { return binary(BinaryOp::kDiv, "div", a, b); }

Tensor affine(const Tensor& x, double factor, double offset) {
  Tensor y = Tensor::empty(x.shape(), x.dtype(), x.device());
  backend(x.device()).elementwise.affine(x, factor, offset, y);
  return y;
}

void mul_backward(const Tensor& grad_y, const Tensor& other, const Dest& grad) {
  check_gradient(grad_y, other, grad, "mul_backward");
  backend(grad_y.device()).elementwise.mul_backward(grad_y, other, grad);
}

void div_backward_a(const Tensor& grad_y, const Tensor& b, const Dest& grad_a) {
  check_gradient(grad_y, b, grad_a, "div_backward_a");
  backend(grad_y.device()).elementwise.div_backward_a(grad_y, b, grad_a);
}

void div_backward_b(const Tensor& grad_y, const Tensor& a, const Tensor& b, const Dest& grad_b) {
  check_gradient(grad_y, a, grad_b, "div_backward_b");
  check_gradient(grad_y, b, grad_b, "div_backward_b");
  check(broadcast_shapes(a.shape(), b.shape(), "div_backward_b") == grad_y.shape(),
        "div_backward_b: operands of ", a.shape(), " and ", b.shape(), " do not give a result of ",
        grad_y.shape());
  backend(grad_y.device()).elementwise.div_backward_b(grad_y, a, b, grad_b);
}

}  // namespace lockstep::ops
