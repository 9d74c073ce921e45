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

}  // namespace lockstep::ops
