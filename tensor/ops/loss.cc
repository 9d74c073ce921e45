#include "lockstep/tensor/ops/loss.h"

#include "lockstep/tensor/backend.h"
#include "lockstep/tensor/ops/check_device.h"

namespace lockstep::ops {
namespace {

void check_classes(const char* op, const Tensor& x, const Tensor& targets, const char* name) {
  check(x.ndim() == 2 && is_computable(x.dtype()), op, ": wanted ", name,
        " [N, C] in f32, f64 or bf16, got ", name_of(x.dtype()), " ", x.shape());
  check(targets.shape() == Shape{x.dim(0)} && targets.dtype() == DType::kI64, op,
        ": wanted targets i64 [", x.dim(0), "], got ", name_of(targets.dtype()), " ",
        targets.shape());
  check_device(op, x, targets, "the targets");
}

}  // namespace

CrossEntropyResult cross_entropy(const Tensor& logits, const Tensor& targets,
                                 const CrossEntropyOptions& options) {
  check_classes("cross_entropy", logits, targets, "logits");
  check(options.label_smoothing >= 0 && options.label_smoothing <= 1,
        "cross_entropy: wanted a label_smoothing in [0, 1], got ", options.label_smoothing);
  const DType dtype = logits.dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
  CrossEntropyResult result{Tensor::empty({}, dtype, logits.device()),
                            Tensor::empty({logits.dim(0)}, dtype, logits.device()),
                            Tensor::empty({}, dtype, logits.device())};
  backend(logits.device())
      .loss.cross_entropy(logits, targets, options, result.loss, result.lse, result.scale);
  return result;
}

void cross_entropy_backward(const Tensor& grad_loss, const Tensor& logits, const Tensor& targets,
                            const CrossEntropyOptions& options, const Tensor& lse,
                            const Tensor& scale, const Dest& grad_logits) {
  check(grad_logits.out.shape() == logits.shape() && grad_logits.out.dtype() == logits.dtype(),
        "cross_entropy_backward: wanted a gradient of ", name_of(logits.dtype()), " ",
        logits.shape(), ", got ", name_of(grad_logits.out.dtype()), " ", grad_logits.out.shape());
  backend(logits.device())
      .loss.cross_entropy_backward(grad_loss, logits, targets, options, lse, scale, grad_logits);
}

NllResult nll(const Tensor& log_probs, const Tensor& targets, const NllOptions& options) {
  check_classes("nll", log_probs, targets, "log_probs");
  const DType dtype = log_probs.dtype() == DType::kF64 ? DType::kF64 : DType::kF32;
  NllResult result{Tensor::empty({}, dtype, log_probs.device()),
                   Tensor::empty({}, dtype, log_probs.device())};
  backend(log_probs.device()).loss.nll(log_probs, targets, options, result.loss, result.scale);
  return result;
}

void nll_backward(const Tensor& grad_loss, const Tensor& targets, int64_t ignore_index,
                  const Tensor& scale, const Dest& grad_log_probs) {
  check_classes("nll_backward", grad_log_probs.out, targets, "grad_log_probs");
  backend(targets.device())
      .loss.nll_backward(grad_loss, targets, ignore_index, scale, grad_log_probs);
}

}  // namespace lockstep::ops
