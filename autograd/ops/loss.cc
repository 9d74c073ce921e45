#include "lockstep/autograd/ops/loss.h"

#include "lockstep/autograd/ops/policy.h"
#include "lockstep/autograd/record.h"
#include "lockstep/tensor/ops/pair_loss.h"

namespace lockstep {

Variable cross_entropy(const Variable& logits, const Tensor& targets,
                       const CrossEntropyOptions& options) {
  const ops::CrossEntropyResult result = ops::cross_entropy(logits.data(), targets, options);
  // The softmax is computed anew from the logits and each row's logsumexp: cheaper than keeping
  // another [N, C].
  return record("cross_entropy", result.loss, {logits},
                [logits = Saved(logits.data()), targets = Saved(targets), options, lse = result.lse,
                 scale = result.scale](const Tensor& grad_loss, GradSink& sink) {
                  ops::cross_entropy_backward(grad_loss, logits.get(), targets.get(), options, lse,
                                              scale, sink.dest(0));
                });
}

Variable nll_loss(const Variable& log_probs, const Tensor& targets, const NllOptions& options) {
  const ops::NllResult result = ops::nll(log_probs.data(), targets, options);
  return record("nll_loss", result.loss, {log_probs},
                [targets = Saved(targets), ignore_index = options.ignore_index,
                 scale = result.scale](const Tensor& grad_loss, GradSink& sink) {
                  ops::nll_backward(grad_loss, targets.get(), ignore_index, scale, sink.dest(0));
                });
}

Variable mse_loss(const Variable& any_x, const Variable& any_target, Reduction reduction) {
  const Variable x = policy::widen(any_x), target = policy::widen(any_target);
  return record("mse_loss", ops::mse(x.data(), target.data(), reduction), {x, target},
                [x = Saved(x.data()), target = Saved(target.data()), reduction](
                    const Tensor& grad_loss, GradSink& sink) {
                  if (sink.wants(0))
                    ops::mse_backward(grad_loss, x.get(), target.get(), reduction, sink.dest(0));
                  if (sink.wants(1))
                    ops::mse_backward(grad_loss, target.get(), x.get(), reduction, sink.dest(1));
                });
}

Variable bce_with_logits_loss(const Variable& any_logits, const Tensor& targets,
                              const BceOptions& options) {
  const Variable logits = policy::meet(any_logits, targets.dtype());
  return record(
      "bce_with_logits_loss",
      ops::bce_with_logits(logits.data(), targets, options.pos_weight, options.reduction), {logits},
      [logits = Saved(logits.data()), targets = Saved(targets), options](const Tensor& grad_loss,
                                                                         GradSink& sink) {
        ops::bce_with_logits_backward(grad_loss, logits.get(), targets.get(), options.pos_weight,
                                      options.reduction, sink.dest(0));
      });
}

Variable cosine_embedding_loss(const Variable& any_a, const Variable& any_b, const Tensor& labels,
                               const CosineEmbeddingOptions& options) {
  const Variable a = policy::widen(any_a), b = policy::widen(any_b);
  return record(
      "cosine_embedding_loss",
      ops::cosine_embedding(a.data(), b.data(), labels, options.margin, options.reduction), {a, b},
      [a = Saved(a.data()), b = Saved(b.data()), labels = Saved(labels), options](
          const Tensor& grad_loss, GradSink& sink) {
        if (sink.wants(0))
          ops::cosine_embedding_backward(grad_loss, a.get(), b.get(), labels.get(), options.margin,
                                         options.reduction, sink.dest(0));
        if (sink.wants(1))
          ops::cosine_embedding_backward(grad_loss, b.get(), a.get(), labels.get(), options.margin,
                                         options.reduction, sink.dest(1));
      });
}

}  // namespace lockstep
