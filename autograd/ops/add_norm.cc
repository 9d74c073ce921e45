#include "lockstep/autograd/ops/norm.h"
#include "lockstep/autograd/ops/policy.h"
#include "lockstep/autograd/record.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tensor/ops/group_norm.h"

namespace lockstep {
namespace {

constexpr const char* kOp = "dropout_add_layer_norm";

void put(const Tensor& sums, int64_t row, const Dest& dest) {
  Tensor out = dest.out;
  const Tensor grad = ops::cast(sums.slice(row, row + 1), out.dtype()).reshape(out.shape());
  if (dest.accumulate) {
    ops::add_scaled(grad, 1.0, out);
  } else {
    ops::copy(grad, out);
  }
}

DropoutMask mask_for(const Tensor& x, const DropoutAddOptions& options) {
  if (options.dropout == 0) return {};
  check(options.rng != nullptr, kOp, ": dropout wants a generator, got none");
  return ops::dropout_mask(options.rng->take(x.numel()), options.dropout);
}

/// The value of an optional vector.
Tensor vector_of(const Variable& v, const Shape& wanted, const char* name) {
  if (!v.defined()) return {};
  check(v.shape() == wanted, kOp, ": wanted a ", name, " of ", wanted, ", got ", v.shape());
  return v.data();
}

}  // namespace

Variable dropout_add_layer_norm(const Variable& any_x, const Variable& any_residual,
                                const Shape& normalized, const Variable& weight,
                                const Variable& bias, const DropoutAddOptions& options) {
  const Variable x = policy::narrow(any_x);
  const Variable residual = any_residual.is(any_x) ? x : policy::narrow(any_residual);
  const int64_t width = ops::layer_norm_extents(x.shape(), normalized).channels;
  const Tensor w = vector_of(weight, normalized, "weight");
  const Tensor b = vector_of(bias, normalized, "bias");
  const Tensor x_b = vector_of(options.x_bias, normalized, "bias of x");
  const DropoutMask mask = mask_for(x.data(), options);
  const ops::AddNormResult result = ops::dropout_add_layer_norm(
      x.data(), residual.data(), width, mask, x_b, w, b, options.eps, grad_enabled());
  // The kernel writes both gradients at once: into memory of one variable that is both it may not.
  const bool distinct = !x.is(residual);
  return record(
      kOp, result.y, {x, residual, weight, bias, options.x_bias},
      [width, mask, distinct, sum = result.sum.defined() ? Saved(result.sum) : Saved(),
       mean = result.mean, rstd = result.rstd,
       weight = w.defined() ? Saved(w) : Saved()](const Tensor& grad_y, GradSink& sink) {
        Dest grads[2];
        for (int i = 0; i < 2; ++i) {
          if (!sink.wants(i)) continue;
          grads[i] = distinct
                         ? sink.dest(i)
                         : Dest{Tensor::empty(grad_y.shape(), grad_y.dtype(), grad_y.device())};
        }
        Tensor sums;
        if (sink.wants(2) || sink.wants(3) || sink.wants(4)) {
          sums = Tensor::empty({sink.wants(4) ? 3 : 2, width}, mean.dtype(), mean.device());
        }
        ops::dropout_add_layer_norm_backward(grad_y, {.sum = sum.get(), .mean = mean, .rstd = rstd},
                                             width, mask, weight.get(), grads[0], grads[1], sums);
        for (int i = 0; i < 2; ++i) {
          if (!distinct && sink.wants(i)) sink.give(i, std::move(grads[i].out));
          grads[i] = {};
        }
        for (int i = 2; i < 5; ++i)
          if (sink.wants(i)) put(sums, i - 2, sink.dest(i));
      });
}

}  // namespace lockstep
