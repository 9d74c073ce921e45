#include "lockstep/tensor/ops/group_norm.h"

#include "lockstep/tensor/backend.h"
#include "lockstep/tensor/ops/check_device.h"
#include "lockstep/tensor/ops/copy.h"

namespace lockstep::ops {
namespace {

DType statistics_dtype(DType x) { return x == DType::kBF16 ? DType::kF32 : x; }

/// `vector` as [channels] in the dtype of the statistics; `value` everywhere when it is undefined.
Tensor per_channel(const Tensor& x, int64_t channels, const Tensor& vector, double value,
                   const char* name) {
  const DType dtype = statistics_dtype(x.dtype());
  if (!vector.defined()) return full({channels}, value, dtype, x.device());
  check(vector.numel() == channels && (vector.dtype() == dtype || vector.dtype() == x.dtype()),
        "group_norm: wanted ", name, " of ", channels, " elements in ", name_of(dtype), ", got ",
        name_of(vector.dtype()), " ", vector.shape());
  check_device("group_norm", x, vector, name);
  return cast(vector, dtype).reshape({channels});
}

void check_extents(const Tensor& x, const GroupNormExtents& e) {
  check(is_computable(x.dtype()), "group_norm: wanted f32, f64 or bf16, got ", name_of(x.dtype()));
  check(x.numel() == e.samples * e.positions * e.channels, "group_norm: x ", x.shape(), " is not [",
        e.samples, ", ", e.positions, ", ", e.channels, "]");
}

}  // namespace

GroupNormExtents layer_norm_extents(const Shape& x, const Shape& normalized) {
  const int first = x.ndim() - normalized.ndim();
  bool fits = first >= 0 && normalized.ndim() > 0;
  for (int i = 0; fits && i < normalized.ndim(); ++i) fits = x[first + i] == normalized[i];
  check(fits, "layer_norm: wanted x [..., *normalized] with normalized ", normalized, ", got ", x);
  return {x.numel(0, first), 1, normalized.numel(), 1};
}

GroupNormExtents group_norm_extents(const Shape& x, int64_t groups) {
  check(x.ndim() >= 2, "group_norm: wanted x [N, ..., C], got ", x);
  const int64_t channels = x.dim(-1);
  check(groups > 0 && channels % groups == 0, "group_norm: ", groups, " groups do not divide ",
        channels, " channels");
  return {x[0], x.numel(1, x.ndim() - 1), channels, groups};
}

GroupNormResult group_norm(const Tensor& x, GroupNormExtents e, const Tensor& weight,
                           const Tensor& bias, double eps) {
  check_extents(x, e);
  check(eps >= 0, "group_norm: wanted eps of at least 0, got ", eps);
  const DType dtype = statistics_dtype(x.dtype());
  GroupNormResult result{Tensor::empty(x.shape(), x.dtype(), x.device()),
                         Tensor::empty({e.samples, e.groups}, dtype, x.device()),
                         Tensor::empty({e.samples, e.groups}, dtype, x.device())};
  backend(x.device())
      .group_norm.forward(x, e, per_channel(x, e.channels, weight, 1, "a weight"),
                          per_channel(x, e.channels, bias, 0, "a bias"), eps, result.y, result.mean,
                          result.rstd);
  return result;
}

void group_norm_backward(const Tensor& grad_y, const Tensor& x, GroupNormExtents e,
                         const Tensor& weight, const Tensor& mean, const Tensor& rstd,
                         const Dest& grad_x, Tensor& sums) {
  constexpr const char* kOp = "group_norm_backward";
  check_extents(x, e);
  const DType dtype = statistics_dtype(x.dtype());
  const auto like_x = [&](const Tensor& other) {
    return other.shape() == x.shape() && other.dtype() == x.dtype();
  };
  check(like_x(grad_y) && (!grad_x.out.defined() || like_x(grad_x.out)), kOp,
        ": wanted gradients like x, ", name_of(x.dtype()), " ", x.shape());
  for (const Tensor* t : {&mean, &rstd}) {
    check(t->shape() == Shape{e.samples, e.groups} && t->dtype() == dtype, kOp,
          ": wanted statistics of ", name_of(dtype), " [", e.samples, ", ", e.groups, "]");
  }
  check(!sums.defined() || (sums.shape() == Shape{2, e.channels} && sums.dtype() == dtype), kOp,
        ": wanted sums of ", name_of(dtype), " [2, ", e.channels, "]");
  check_device(kOp, x, grad_y, "grad_y");
  backend(x.device())
      .group_norm.backward(grad_y, x, e, per_channel(x, e.channels, weight, 1, "a weight"), mean,
                           rstd, grad_x, sums);
}

AddNormResult dropout_add_layer_norm(const Tensor& x, const Tensor& residual, int64_t width,
                                     const DropoutMask& mask, const Tensor& x_bias,
                                     const Tensor& weight, const Tensor& bias, double eps,
                                     bool keep_sum) {
  constexpr const char* kOp = "dropout_add_layer_norm";
  check(residual.shape() == x.shape() && residual.dtype() == x.dtype(), kOp,
        ": wanted a residual like x, ", name_of(x.dtype()), " ", x.shape(), ", got ",
        name_of(residual.dtype()), " ", residual.shape());
  check_device(kOp, x, residual, "the residual");
  check(width > 0 && x.numel() % width == 0, kOp, ": x ", x.shape(), " has no rows of ", width);
  const int64_t rows = x.numel() / width;
  check_extents(x, {rows, 1, width, 1});
  check(eps >= 0, kOp, ": wanted eps of at least 0, got ", eps);
  const DType dtype = statistics_dtype(x.dtype());
  const auto like_x = [&] { return Tensor::empty(x.shape(), x.dtype(), x.device()); };
  AddNormResult result{.y = like_x(),
                       .mean = Tensor::empty({rows}, dtype, x.device()),
                       .rstd = Tensor::empty({rows}, dtype, x.device())};
  if (keep_sum) result.sum = like_x();
  backend(x.device())
      .group_norm.add_forward(
          x, x_bias.defined() ? per_channel(x, width, x_bias, 0, "a bias of x") : Tensor(),
          residual, mask, per_channel(x, width, weight, 1, "a weight"),
          per_channel(x, width, bias, 0, "a bias"), eps, keep_sum ? result.sum : result.y, result.y,
          result.mean, result.rstd);
  return result;
}

void dropout_add_layer_norm_backward(const Tensor& grad_y, const AddNormResult& forward,
                                     int64_t width, const DropoutMask& mask, const Tensor& weight,
                                     const Dest& grad_x, const Dest& grad_residual, Tensor& sums) {
  constexpr const char* kOp = "dropout_add_layer_norm_backward";
  const Tensor& sum = forward.sum;
  const int64_t rows = forward.mean.numel();
  const DType dtype = statistics_dtype(sum.dtype());
  check_extents(sum, {rows, 1, width, 1});
  for (const Tensor* t : {&grad_y, &grad_x.out, &grad_residual.out}) {
    check(!t->defined() || (t->shape() == sum.shape() && t->dtype() == sum.dtype()), kOp,
          ": wanted gradients like x, ", name_of(sum.dtype()), " ", sum.shape());
  }
  check(!sums.defined() || (sums.ndim() == 2 && (sums.dim(0) == 2 || sums.dim(0) == 3) &&
                            sums.dim(1) == width && sums.dtype() == dtype),
        kOp, ": wanted sums of ", name_of(dtype), " [2 or 3, ", width, "]");
  check_device(kOp, sum, grad_y, "grad_y");
  backend(sum.device())
      .group_norm.add_backward(grad_y, sum, mask, per_channel(sum, width, weight, 1, "a weight"),
                               forward.mean, forward.rstd, grad_x, grad_residual, sums);
}

}  // namespace lockstep::ops
