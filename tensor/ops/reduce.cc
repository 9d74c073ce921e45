#include "lockstep/tensor/ops/reduce.h"

#include "lockstep/tensor/backend.h"
#include "lockstep/tensor/ops/check_device.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tensor/ops/elementwise.h"

#include <algorithm>
#include <array>

namespace lockstep::ops {
namespace {

using DimSet = std::array<bool, Shape::kMaxDims>;

DimSet dim_set(const Shape& shape, const std::vector<int>& dims, const char* op) {
  DimSet set{};
  for (int dim : dims) {
    const auto at = static_cast<size_t>(shape.axis(dim, op));
    check(!set[at], op, ": dimension ", dim, " is named twice");
    set[at] = true;
  }
  return set;
}

/// [outer, extent, inner] around `dim`.
Shape around(const Shape& shape, int dim) {
  const int at = shape.axis(dim, "max");
  return {shape.numel(0, at), shape[at], shape.numel(at + 1, shape.ndim())};
}

}  // namespace

Shape reduced_shape(const Shape& shape, const std::vector<int>& dims, const char* op) {
  const DimSet set = dim_set(shape, dims, op);
  std::array<int64_t, Shape::kMaxDims> extent{};
  for (int i = 0; i < shape.ndim(); ++i)
    extent[static_cast<size_t>(i)] = set[static_cast<size_t>(i)] ? 1 : shape[i];
  return Shape(extent.data(), shape.ndim());
}

Shape without_dims(const Shape& shape, const std::vector<int>& dims) {
  const DimSet set = dim_set(shape, dims, "without_dims");
  std::array<int64_t, Shape::kMaxDims> extent{};
  int ndim = 0;
  for (int i = 0; i < shape.ndim(); ++i) {
    if (!set[static_cast<size_t>(i)]) extent[static_cast<size_t>(ndim++)] = shape[i];
  }
  return Shape(extent.data(), ndim);
}

void sum_to(const Tensor& x, double factor, const Dest& y) {
  check(x.dtype() == y.out.dtype() && can_broadcast(y.out.shape(), x.shape()), "sum_to: from ",
        name_of(x.dtype()), " ", x.shape(), " to ", name_of(y.out.dtype()), " ", y.out.shape());
  backend(x.device()).reduce.sum_to(x, factor, y);
}

void broadcast_to(const Tensor& x, double factor, const Dest& y) {
  check(x.dtype() == y.out.dtype() && can_broadcast(x.shape(), y.out.shape()),
        "broadcast_to: from ", name_of(x.dtype()), " ", x.shape(), " to ", name_of(y.out.dtype()),
        " ", y.out.shape());
  backend(x.device()).reduce.broadcast_to(x, factor, y);
}

Tensor sum(const Tensor& x, const std::vector<int>& dims, bool keepdim) {
  const Tensor y = Tensor::empty(reduced_shape(x.shape(), dims, "sum"), x.dtype(), x.device());
  backend(x.device()).reduce.sum_to(x, 1.0, {y});
  return keepdim ? y : y.reshape(without_dims(x.shape(), dims));
}

Tensor sum(const Tensor& x) {
  const Tensor y = Tensor::empty({}, x.dtype(), x.device());
  backend(x.device()).reduce.sum_to(x, 1.0, {y});
  return y;
}

void sum_of_squares(const Tensor& x, Tensor& total) {
  check(total.numel() == 1 && total.dtype() == DType::kF64,
        "sum_of_squares: wanted a total of one f64 element, got ", name_of(total.dtype()), " ",
        total.shape());
  check_device("sum_of_squares", x, total, "the total");
  backend(x.device()).reduce.sum_of_squares(x, total);
}

bool scale_and_check(Tensor& x, double factor) {
  if (factor == 1) return true;
  if (!x.device().is_cpu()) {
    scale(x, factor);
    return true;
  }
  Tensor finite = Tensor::empty({1}, DType::kI32);
  backend(x.device()).reduce.scale_and_check(factor, x, finite);
  return *finite.data<int32_t>() != 0;
}

Tensor finite_flag(const Tensor& x) {
  Tensor finite = Tensor::empty({1}, DType::kI32, x.device());
  backend(x.device()).reduce.all_finite(x, finite);
  return finite;
}

bool all_finite(const Tensor& x) {
  return *to_device(finite_flag(x), Device::cpu()).data<int32_t>() != 0;
}

bool all_finite(std::span<const Tensor> tensors) {
  if (tensors.empty()) return true;
  if (tensors[0].device().is_cpu()) {
    return std::all_of(tensors.begin(), tensors.end(),
                       [](const Tensor& x) { return all_finite(x); });
  }
  const auto count = static_cast<int64_t>(tensors.size());
  const Tensor flags = Tensor::empty({count}, DType::kI32, tensors[0].device());
  for (int64_t i = 0; i < count; ++i) {
    Tensor flag = flags.slice(i, i + 1);
    const Tensor& x = tensors[static_cast<size_t>(i)];
    backend(x.device()).reduce.all_finite(x, flag);
  }
  const std::vector<int32_t> finite = to_device(flags, Device::cpu()).to_vector<int32_t>();
  return std::find(finite.begin(), finite.end(), 0) == finite.end();
}

MaxResult max(const Tensor& x, int dim, bool keepdim) {
  check(x.dim(dim) > 0, "max: dimension ", dim, " of ", x.shape(), " is empty");
  const Shape shape = keepdim ? x.shape().with_dim(dim, 1) : without_dims(x.shape(), {dim});
  MaxResult result{Tensor::empty(shape, x.dtype(), x.device()),
                   Tensor::empty(shape, DType::kI64, x.device())};
  backend(x.device()).reduce.max(x.reshape(around(x.shape(), dim)), result.values, result.indices);
  return result;
}

void max_backward(const Tensor& grad, const Tensor& indices, int dim, const Dest& grad_x) {
  const Shape& shape = grad_x.out.shape();
  check(grad.dtype() == grad_x.out.dtype() && grad.shape() == indices.shape() &&
            grad.numel() * shape.dim(dim) == shape.numel(),
        "max_backward: gradient of ", grad.shape(), " with indices of ", indices.shape(), " for ",
        shape, " along dimension ", dim);
  backend(grad.device())
      .reduce.max_backward(grad, indices,
                           {grad_x.out.reshape(around(shape, dim)), grad_x.accumulate});
}

}  // namespace lockstep::ops
