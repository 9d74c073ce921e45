#include "lockstep/tensor/ops/group_norm.h"
#include "lockstep/autograd/ops/norm.h"
#include "lockstep/autograd/ops/policy.h"
#include "lockstep/autograd/record.h"
#include "lockstep/tensor/ops/copy.h"

namespace lockstep {
namespace {

void put(const Tensor& grad, const Dest& dest) {
  Tensor out = dest.out;
  const Tensor shaped = ops::cast(grad, out.dtype()).reshape(out.shape());
  if (dest.accumulate) {
    ops::add_scaled(shaped, 1.0, out);
  } else {
    ops::copy(shaped, out);
  }
}

Variable normalise(const char* op, const Variable& any_x, const GroupNormExtents& extents,
                   const Shape& wanted, const Variable& weight, const Variable& bias, double eps) {
  const Variable x = policy::narrow(any_x);
  const auto data_of = [&](const Variable& v, const char* name) {
    if (!v.defined()) return Tensor();
    check(v.shape() == wanted, op, ": wanted a ", name, " of ", wanted, ", got ", v.shape());
    return v.data();
  };
  const Tensor w = data_of(weight, "weight");
  const ops::GroupNormResult result =
      ops::group_norm(x.data(), extents, w, data_of(bias, "bias"), eps);
  return record(op, result.y, {x, weight, bias},
                [extents, x = Saved(x.data()), weight = w.defined() ? Saved(w) : Saved(),
                 mean = result.mean, rstd = result.rstd](const Tensor& grad_y, GradSink& sink) {
                  Tensor sums;
                  if (sink.wants(1) || sink.wants(2))
                    sums = Tensor::empty({2, extents.channels}, mean.dtype(), mean.device());
                  Dest grad_x;
                  if (sink.wants(0)) grad_x = sink.dest(0);
                  ops::group_norm_backward(grad_y, x.get(), extents, weight.get(), mean, rstd,
                                           grad_x, sums);
                  grad_x = {};
                  if (sink.wants(1)) put(sums.slice(0, 1), sink.dest(1));
                  if (sink.wants(2)) put(sums.slice(1, 2), sink.dest(2));
                });
}

}  // namespace

Variable layer_norm(const Variable& x, const Shape& normalized, const Variable& weight,
                    const Variable& bias, double eps) {
  return normalise("layer_norm", x, ops::layer_norm_extents(x.shape(), normalized), normalized,
                   weight, bias, eps);
}

Variable group_norm(const Variable& x, int64_t groups, const Variable& weight, const Variable& bias,
                    double eps) {
  const GroupNormExtents extents = ops::group_norm_extents(x.shape(), groups);
  return normalise("group_norm", x, extents, {extents.channels}, weight, bias, eps);
}

}  // namespace lockstep
