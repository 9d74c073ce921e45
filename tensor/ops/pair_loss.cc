#include "lockstep/tensor/ops/pair_loss.h"

#include "lockstep/tensor/backend.h"
#include "lockstep/tensor/ops/check_device.h"

namespace lockstep::ops {
namespace {

void check_pair(const char* op, const Tensor& x, const Tensor& y, const char* name) {
  check(is_computable(x.dtype()) && x.dtype() == y.dtype() && x.shape() == y.shape(), op,
        ": wanted ", name, " of one shape and dtype with the first operand, f32, f64 or bf16, got ",
        name_of(x.dtype()), " ", x.shape(), " and ", name_of(y.dtype()), " ", y.shape());
  check_device(op, x, y, name);
}

double factor_of(Reduction reduction, int64_t count) {
  if (reduction == Reduction::kSum) return 1;
  return count > 0 ? 1 / static_cast<double>(count) : 0;
}

DType loss_dtype(DType x) { return x == DType::kBF16 ? DType::kF32 : x; }

Tensor scalar_for(const Tensor& x) { return Tensor::empty({}, loss_dtype(x.dtype()), x.device()); }

void check_gradient(const char* op, const Tensor& grad_loss, const Tensor& x, const Dest& grad) {
  check(grad_loss.numel() == 1 && grad_loss.dtype() == loss_dtype(x.dtype()), op,
        ": wanted the gradient of a scalar, got ", name_of(grad_loss.dtype()), " ",
        grad_loss.shape());
  check_pair(op, x, grad.out, "a gradient");
}

void check_pos_weight(const char* op, const Tensor& logits, const Tensor& pos_weight) {
  if (!pos_weight.defined()) return;
  check(logits.ndim() >= 1 && pos_weight.shape() == Shape{logits.dim(-1)} &&
            pos_weight.dtype() == logits.dtype(),
        op, ": wanted a pos_weight of ", name_of(logits.dtype()),
        " for the last dimension of logits ", logits.shape(), ", got ", name_of(pos_weight.dtype()),
        " ", pos_weight.shape());
  check_device(op, logits, pos_weight, "the pos_weight");
}

void check_rows(const char* op, const Tensor& a, const Tensor& b, const Tensor& labels) {
  check_pair(op, a, b, "the second operand");
  check(a.ndim() == 2 && labels.shape() == Shape{a.dim(0)} && labels.dtype() == DType::kI64, op,
        ": wanted rows [N, D] and labels of i64 [N], got ", a.shape(), " and ",
        name_of(labels.dtype()), " ", labels.shape());
  check_device(op, a, labels, "the labels");
}

}  // namespace

Tensor mse(const Tensor& x, const Tensor& target, Reduction reduction) {
  check_pair("mse", x, target, "a target");
  Tensor loss = scalar_for(x);
  backend(x.device()).pair_loss.mse(x, target, factor_of(reduction, x.numel()), loss);
  return loss;
}

void mse_backward(const Tensor& grad_loss, const Tensor& x, const Tensor& target,
                  Reduction reduction, const Dest& grad_x) {
  check_pair("mse_backward", x, target, "a target");
  check_gradient("mse_backward", grad_loss, x, grad_x);
  backend(x.device())
      .pair_loss.mse_backward(grad_loss, x, target, factor_of(reduction, x.numel()), grad_x);
}

Tensor bce_with_logits(const Tensor& logits, const Tensor& targets, const Tensor& pos_weight,
                       Reduction reduction) {
  check_pair("bce_with_logits", logits, targets, "targets");
  check_pos_weight("bce_with_logits", logits, pos_weight);
  Tensor loss = scalar_for(logits);
  backend(logits.device())
      .pair_loss.bce_with_logits(logits, targets, pos_weight, factor_of(reduction, logits.numel()),
                                 loss);
  return loss;
}

void bce_with_logits_backward(const Tensor& grad_loss, const Tensor& logits, const Tensor& targets,
                              const Tensor& pos_weight, Reduction reduction,
                              const Dest& grad_logits) {
  constexpr const char* kOp = "bce_with_logits_backward";
  check_pair(kOp, logits, targets, "targets");
  check_pos_weight(kOp, logits, pos_weight);
  check_gradient(kOp, grad_loss, logits, grad_logits);
  backend(logits.device())
      .pair_loss.bce_with_logits_backward(grad_loss, logits, targets, pos_weight,
                                          factor_of(reduction, logits.numel()), grad_logits);
}

Tensor cosine_embedding(const Tensor& a, const Tensor& b, const Tensor& labels, double margin,
                        Reduction reduction) {
  check_rows("cosine_embedding", a, b, labels);
  Tensor loss = scalar_for(a);
  backend(a.device())
      .pair_loss.cosine_embedding(a, b, labels, margin, factor_of(reduction, a.dim(0)), loss);
  return loss;
}

void cosine_embedding_backward(const Tensor& grad_loss, const Tensor& a, const Tensor& b,
                               const Tensor& labels, double margin, Reduction reduction,
                               const Dest& grad_a) {
  constexpr const char* kOp = "cosine_embedding_backward";
  check_rows(kOp, a, b, labels);
  check_gradient(kOp, grad_loss, a, grad_a);
  backend(a.device())
      .pair_loss.cosine_embedding_backward(grad_loss, a, b, labels, margin,
                                           factor_of(reduction, a.dim(0)), grad_a);
}

}  // namespace lockstep::ops
