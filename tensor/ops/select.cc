#include "lockstep/tensor/ops/select.h"

#include "lockstep/tensor/backend.h"
#include "lockstep/tensor/ops/check_device.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tensor/ops/elementwise.h"
#include "lockstep/tensor/ops/reduce.h"

namespace lockstep::ops {
namespace {

void check_mask(const char* op, const Tensor& mask) {
  check(mask.dtype() == DType::kU8, op, ": wanted a mask of u8, as comparisons give, got ",
        name_of(mask.dtype()));
}

}  // namespace

Tensor compare(CompareOp op, const Tensor& a, const Tensor& b) {
  check(a.dtype() == b.dtype() && a.dtype() != DType::kF16,
        "compare: wanted two operands of one dtype other than f16, got ", name_of(a.dtype()),
        " and ", name_of(b.dtype()), "; cast one of them");
  check_device("compare", a, b, "the second operand");
  Tensor mask =
      Tensor::empty(broadcast_shapes(a.shape(), b.shape(), "compare"), DType::kU8, a.device());
  backend(a.device()).select.compare(op, a, b, mask);
  return mask;
}

Tensor compare(CompareOp op, const Tensor& a, double b) {
  return compare(op, a, full({}, b, a.dtype(), a.device()));
}

Tensor where(const Tensor& mask, const Tensor& a, const Tensor& b) {
  check_mask("where", mask);
  check(a.dtype() == b.dtype(), "where: operands of ", name_of(a.dtype()), " and ",
        name_of(b.dtype()), "; cast one of them");
  check_device("where", a, b, "the second operand");
  check_device("where", a, mask, "the mask");
  const Shape shape =
      broadcast_shapes(mask.shape(), broadcast_shapes(a.shape(), b.shape(), "where"), "where");
  Tensor y = Tensor::empty(shape, a.dtype(), a.device());
  backend(a.device()).select.where(mask, a, b, y);
  return y;
}

void where_backward(const Tensor& grad_y, const Tensor& mask, bool chosen, const Dest& grad) {
  check_mask("where_backward", mask);
  check(can_broadcast(mask.shape(), grad_y.shape()) &&
            can_broadcast(grad.out.shape(), grad_y.shape()) && grad.out.dtype() == grad_y.dtype(),
        "where_backward: a mask of ", mask.shape(), " and an operand of ",
        name_of(grad.out.dtype()), " ", grad.out.shape(), " do not give a result of ",
        name_of(grad_y.dtype()), " ", grad_y.shape());
  check_device("where_backward", grad_y, mask, "the mask");
  const auto& kernels = backend(grad_y.device()).select;
  if (grad.out.shape() == grad_y.shape()) {
    kernels.keep_where(grad_y, mask, chosen, grad);
    return;
  }
  const Tensor kept = Tensor::empty(grad_y.shape(), grad_y.dtype(), grad_y.device());
  kernels.keep_where(grad_y, mask, chosen, {kept});
  sum_to(kept, 1.0, grad);
}

}  // namespace lockstep::ops
