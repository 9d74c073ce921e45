#include "lockstep/tensor/ops/index.h"

#include "lockstep/tensor/backend.h"
#include "lockstep/tensor/ops/check_device.h"

#include <array>

namespace lockstep::ops {
namespace {

void check_index(const char* op, const Tensor& x, const Tensor& index, const char* name) {
  check(index.dtype() == DType::kI64, op, ": wanted ", name, " in i64, got ",
        name_of(index.dtype()));
  check_device(op, x, index, name);
}

/// Checks an index along `dim` of `whole` against it and against the tensor of its own shape.
int checked_dim(const char* op, const Tensor& whole, int dim, const Tensor& index,
                const Tensor& part) {
  check_index(op, whole, index, "the index");
  const int axis = whole.shape().axis(dim, op);
  bool fits = index.ndim() == whole.ndim();
  for (int i = 0; fits && i < whole.ndim(); ++i) fits = i == axis || index.dim(i) <= whole.dim(i);
  check(fits, op, ": an index of ", index.shape(), " does not fit ", whole.shape(),
        " outside dimension ", dim);
  check(part.shape() == index.shape() && part.dtype() == whole.dtype(), op, ": wanted ",
        name_of(whole.dtype()), " of the index's shape ", index.shape(), ", got ",
        name_of(part.dtype()), " ", part.shape());
  check_device(op, whole, part, "the other operand");
  return axis;
}

}  // namespace

Tensor gather(const Tensor& x, int dim, const Tensor& index) {
  const Tensor y = Tensor::empty(index.shape(), x.dtype(), x.device());
  gather(x, dim, index, {y});
  return y;
}

void gather(const Tensor& x, int dim, const Tensor& index, const Dest& y) {
  const int axis = checked_dim("gather", x, dim, index, y.out);
  backend(x.device()).index.gather(x, axis, index, y);
}

void scatter_add(const Tensor& x, int dim, const Tensor& index, Tensor& y) {
  const int axis = checked_dim("scatter_add", y, dim, index, x);
  backend(x.device()).index.scatter_add(x, axis, index, y);
}

Tensor embedding(const Tensor& weight, const Tensor& ids) {
  check(weight.ndim() == 2, "embedding: wanted a weight [V, D], got ", weight.shape());
  check_index("embedding", weight, ids, "ids");
  std::array<int64_t, Shape::kMaxDims> extents{};
  check(ids.ndim() < Shape::kMaxDims, "embedding: ids have too many dimensions: ", ids.shape());
  std::copy(ids.shape().begin(), ids.shape().end(), extents.begin());
  extents[static_cast<size_t>(ids.ndim())] = weight.dim(1);
  Tensor y = Tensor::empty(Shape(extents.data(), ids.ndim() + 1), weight.dtype(), weight.device());
  backend(weight.device()).index.embedding(weight, ids, y);
  return y;
}

void embedding_backward(const Tensor& grad_y, const Tensor& ids, int64_t padding_idx,
                        const Dest& grad_weight) {
  const Tensor& weight = grad_weight.out;
  check_index("embedding_backward", weight, ids, "ids");
  check(weight.ndim() == 2 && grad_y.ndim() == ids.ndim() + 1 && grad_y.dim(-1) == weight.dim(1) &&
            grad_y.numel() == ids.numel() * weight.dim(1) && grad_y.dtype() == weight.dtype(),
        "embedding_backward: a gradient of ", name_of(grad_y.dtype()), " ", grad_y.shape(),
        " for ids ", ids.shape(), " and a weight of ", name_of(weight.dtype()), " ",
        weight.shape());
  check_device("embedding_backward", weight, grad_y, "grad_y");
  backend(weight.device()).index.embedding_backward(grad_y, ids, padding_idx, grad_weight);
}

}  // namespace lockstep::ops
