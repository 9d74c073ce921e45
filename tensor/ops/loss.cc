#include "lockstep/tensor/ops/loss.h"

#include "lockstep/tensor/backend.h"
#include "lockstep/tensor/ops/check_device.h"

namespace lockstep::ops {

CrossEntropyResult cross_entropy(const Tensor& logits, const Tensor& targets,
                                 const CrossEntropyOptions& options) {
  check(logits.ndim() == 2 && is_computable(logits.dtype()),
        "cross_entropy: wanted logits [N, C] in f32, f64 or bf16, got ", name_of(logits.dtype()),
        " ", logits.shape());
  check(targets.shape() == Shape{logits.dim(0)} && targets.dtype() == DType::kI64,
        "cross_entropy: wanted targets i64 [", logits.dim(0), "], got ", name_of(targets.dtype()),
        " ", targets.shape());
  check_device("cross_entropy", logits, targets, "the targets");
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

}  // namespace lockstep::ops
