#include "lockstep/autograd/ops/norm.h"

#include "lockstep/autograd/checkpoint.h"
#include "lockstep/autograd/ops/policy.h"
#include "lockstep/autograd/record.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tensor/ops/norm.h"

#include <algorithm>

namespace lockstep {
namespace {

void put(const Tensor& grad, const Dest& dest) {
  Tensor out = dest.out;
  if (dest.accumulate) {
    ops::add_scaled(grad, 1.0, out);
  } else {
    ops::copy(grad, out);
  }
}

/// Values of each channel.
int64_t rows_of(const Tensor& x) { return x.numel() / std::max<int64_t>(x.dim(-1), 1); }

struct Statistics {
  Tensor mean;
  Tensor invstd;
  double count = 0;  // rows that they were taken from; in training
};

Statistics batch_statistics(const Tensor& x, Tensor& running_mean, Tensor& running_var,
                            const BatchNormOptions& options) {
  Tensor mean = Tensor::empty(running_mean.shape(), running_mean.dtype(), x.device());
  Tensor variance = Tensor::empty(running_var.shape(), running_var.dtype(), x.device());
  const bool shared = options.exchange != nullptr;
  const int64_t count = shared ? pooled_moments(x, *options.exchange, mean, variance) : rows_of(x);
  check(count > 1, "batch_norm: wanted more than one value a channel in training, got x ",
        x.shape(), shared ? str(" and ", count, " on all ranks together") : "",
        "; use a larger batch, or evaluation mode");
  if (!shared) ops::batch_norm_moments(x, mean, variance);
  const double n = static_cast<double>(count);
  if (!recomputing()) {
    ops::batch_norm_update_running(mean, options.momentum, 1.0, running_mean);
    ops::batch_norm_update_running(variance, options.momentum, n / (n - 1), running_var);
  }
  return {mean, ops::batch_norm_invstd(variance, options.eps), n};
}

Variable normalise(const char* op, const Variable& any_x, const Variable& weight,
                   const Variable& bias, Tensor& running_mean, Tensor& running_var,
                   const BatchNormOptions& options, const Variable& any_residual, bool relu) {
  const Variable x = policy::narrow(any_x), residual = policy::narrow(any_residual);
  check(x.data().ndim() >= 2, op, ": wanted x [..., C] of at least two dimensions, got ",
        x.shape());
  const bool training = options.training;
  // The running mean itself would change in place before an evaluation's backward; a copy of [C]
  // costs nothing.
  const Statistics s = training ? batch_statistics(x.data(), running_mean, running_var, options)
                                : Statistics{ops::clone(running_mean),
                                             ops::batch_norm_invstd(running_var, options.eps)};
  const Tensor y = ops::batch_norm_apply({x.data(), s.mean, s.invstd}, weight.data(), bias.data(),
                                         residual.defined() ? residual.data() : Tensor(), relu);
  // Where the result is positive the relu passed the gradient on.
  const Saved mask = relu ? Saved(y) : Saved();
  return record(
      op, y, {x, weight, bias, residual},
      [=, x = Saved(x.data()), weight = Saved(weight.data()),
       exchange = training ? options.exchange : nullptr](const Tensor& grad_y, GradSink& sink) {
        const BatchNormInputs in{x.get(), s.mean, s.invstd};
        // One block, so that it is one collective.
        const int64_t channels = s.mean.numel();
        Tensor sums = Tensor::empty({2 * channels}, s.mean.dtype(), s.mean.device());
        Tensor sum_grad = sums.slice(0, channels);
        Tensor sum_grad_xhat = sums.slice(channels, 2 * channels);
        // The gradient of the residual is the masked gradient: the second pass reads that alone.
        Tensor g = grad_y;
        Tensor y = mask.get();
        Dest grad_residual;
        if (sink.wants(3)) grad_residual = sink.dest(3);
        ops::batch_norm_backward_sums(g, y, in, sum_grad, sum_grad_xhat, grad_residual);
        if (grad_residual.out.defined() && !grad_residual.accumulate) {
          g = grad_residual.out;
          y = Tensor();
        }
        if (sink.wants(1)) put(sum_grad_xhat, sink.dest(1));
        if (sink.wants(2)) put(sum_grad, sink.dest(2));
        if (!sink.wants(0)) return;
        if (exchange) exchange->all_reduce(sums);
        ops::batch_norm_backward_data(g, y, in, weight.get(), training ? sum_grad : Tensor(),
                                      training ? sum_grad_xhat : Tensor(), s.count, sink.dest(0));
      });
}

}  // namespace

Variable batch_norm(const Variable& x, const Variable& weight, const Variable& bias,
                    Tensor running_mean, Tensor running_var, const BatchNormOptions& options) {
  return normalise("batch_norm", x, weight, bias, running_mean, running_var, options, {}, false);
}

Variable batch_norm_relu(const Variable& x, const Variable& weight, const Variable& bias,
                         Tensor running_mean, Tensor running_var, const BatchNormOptions& options,
                         const Variable& residual) {
  return normalise("batch_norm_relu", x, weight, bias, running_mean, running_var, options, residual,
                   true);
}

}  // namespace lockstep
