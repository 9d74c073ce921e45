#include "lockstep/autograd/ops/index.h"

#include "lockstep/autograd/ops/policy.h"
#include "lockstep/autograd/record.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tensor/ops/index.h"

namespace lockstep {

Variable gather(const Variable& x, int dim, const Tensor& index) {
  return record("gather", ops::gather(x.data(), dim, index), {x},
                [index = Saved(index), dim](const Tensor& grad_y, GradSink& sink) {
                  Dest grad_x = sink.dest(0);
                  if (!grad_x.accumulate) ops::fill(grad_x.out, 0);
                  ops::scatter_add(grad_y, dim, index.get(), grad_x.out);
                });
}

Variable scatter_add(const Variable& any_x, int dim, const Tensor& index,
                     const Variable& any_source) {
  const Variable x = policy::meet(any_x, any_source.dtype());
  const Variable source = policy::meet(any_source, any_x.dtype());
  Tensor y = ops::clone(x.data());
  ops::scatter_add(source.data(), dim, index, y);
  return record("scatter_add", y, {x, source},
                [index = Saved(index), dim](const Tensor& grad_y, GradSink& sink) {
                  if (sink.wants(1)) ops::gather(grad_y, dim, index.get(), sink.dest(1));
                  if (sink.wants(0)) sink.give(0, grad_y);
                });
}

Variable embedding(const Variable& weight, const Tensor& ids, const EmbeddingOptions& options) {
  const int64_t padding = options.padding_idx;
  check(padding < 0 || (weight.data().ndim() == 2 && padding < weight.dim(0)),
        "embedding: padding_idx ", padding, " is not a row of a weight ", weight.shape());
  return record("embedding", ops::embedding(weight.data(), ids), {weight},
                [ids = Saved(ids), padding](const Tensor& grad_y, GradSink& sink) {
                  ops::embedding_backward(grad_y, ids.get(), padding, sink.dest(0));
                });
}

}  // namespace lockstep
