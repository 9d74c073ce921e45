#include "lockstep/autograd/ops/loss.h"

#include "lockstep/autograd/record.h"

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

}  // namespace lockstep
