#include "lockstep/tensor/ops/norm.h"

#include "lockstep/tensor/backend.h"
#include "lockstep/tensor/ops/check_device.h"

namespace lockstep::ops {
namespace {

DType statistics_dtype(DType x) { return x == DType::kBF16 ? DType::kF32 : x; }

void check_channels(const char* op, const Tensor& x, const Tensor& vector, const char* name) {
  check(x.ndim() >= 2 && is_computable(x.dtype()), op,
        ": wanted x [..., C] in f32, f64 or bf16 of at least two dimensions, got ",
        name_of(x.dtype()), " ", x.shape());
  check(vector.shape() == Shape{x.dim(-1)} && vector.dtype() == statistics_dtype(x.dtype()), op,
        ": wanted ", name, " [", x.dim(-1), "] in ", name_of(statistics_dtype(x.dtype())),
        " for x ", name_of(x.dtype()), " ", x.shape(), ", got ", name_of(vector.dtype()), " ",
        vector.shape());
  check_device(op, x, vector, name);
}

void check_same(const char* op, const Tensor& x, const Tensor& other, const char* name) {
  check(other.shape() == x.shape() && other.dtype() == x.dtype(), op, ": wanted ", name,
        " like x, ", name_of(x.dtype()), " ", x.shape(), ", got ", name_of(other.dtype()), " ",
        other.shape());
  check_device(op, x, other, name);
}

void check_backward(const char* op, const Tensor& grad_y, const Tensor& y,
                    const BatchNormInputs& in) {
  check_channels(op, in.x, in.mean, "a mean");
  check_channels(op, in.x, in.invstd, "an invstd");
  check_same(op, in.x, grad_y, "grad_y");
  if (y.defined()) check_same(op, in.x, y, "y");
}

}  // namespace

void batch_norm_moments(const Tensor& x, Tensor& mean, Tensor& variance) {
  check_channels("batch_norm_moments", x, mean, "a mean");
  check_channels("batch_norm_moments", x, variance, "a variance");
  check(x.numel() > 0, "batch_norm_moments: x is empty: ", x.shape(),
        "; there are no statistics of nothing");
  backend(x.device()).norm.moments(x, mean, variance);
}

Tensor batch_norm_invstd(const Tensor& variance, double eps) {
  check(eps >= 0, "batch_norm_invstd: wanted eps of at least 0, got ", eps);
  Tensor invstd = Tensor::empty(variance.shape(), variance.dtype(), variance.device());
  backend(variance.device()).norm.invstd(variance, eps, invstd);
  return invstd;
}

void batch_norm_update_running(const Tensor& batch, double momentum, double factor,
                               Tensor& running) {
  check_same("batch_norm_update_running", batch, running, "running statistics");
  backend(batch.device()).norm.update_running(batch, momentum, factor, running);
}

Tensor batch_norm_apply(const BatchNormInputs& in, const Tensor& weight, const Tensor& bias,
                        const Tensor& residual, bool relu) {
  constexpr const char* kOp = "batch_norm";
  check_channels(kOp, in.x, in.mean, "a mean");
  check_channels(kOp, in.x, in.invstd, "an invstd");
  check_channels(kOp, in.x, weight, "a weight");
  check_channels(kOp, in.x, bias, "a bias");
  if (residual.defined()) check_same(kOp, in.x, residual, "a residual");
  Tensor y = Tensor::empty(in.x.shape(), in.x.dtype(), in.x.device());
  backend(in.x.device()).norm.apply(in, weight, bias, residual, relu, y);
  return y;
}

void batch_norm_backward_sums(const Tensor& grad_y, const Tensor& y, const BatchNormInputs& in,
                              Tensor& sum_grad, Tensor& sum_grad_xhat, const Dest& grad_residual) {
  constexpr const char* kOp = "batch_norm_backward_sums";
  check_backward(kOp, grad_y, y, in);
  check_channels(kOp, in.x, sum_grad, "sums");
  check_channels(kOp, in.x, sum_grad_xhat, "sums");
  if (grad_residual.out.defined()) check_same(kOp, in.x, grad_residual.out, "grad_residual");
  backend(in.x.device()).norm.backward_sums(grad_y, y, in, sum_grad, sum_grad_xhat, grad_residual);
}

void batch_norm_backward_data(const Tensor& grad_y, const Tensor& y, const BatchNormInputs& in,
                              const Tensor& weight, const Tensor& sum_grad,
                              const Tensor& sum_grad_xhat, double count, const Dest& grad_x) {
  constexpr const char* kOp = "batch_norm_backward_data";
  check_backward(kOp, grad_y, y, in);
  check_channels(kOp, in.x, weight, "a weight");
  check(sum_grad.defined() == sum_grad_xhat.defined(), kOp, ": wanted both sums or none");
  if (sum_grad.defined()) {
    check_channels(kOp, in.x, sum_grad, "sums");
    check_channels(kOp, in.x, sum_grad_xhat, "sums");
  }
  check_same(kOp, in.x, grad_x.out, "grad_x");
  backend(in.x.device())
      .norm.backward_data(grad_y, y, in, weight, sum_grad, sum_grad_xhat, count, grad_x);
}

}  // namespace lockstep::ops
