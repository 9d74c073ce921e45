// Losses: ONNX's classes are dimension 1 of [N, C, ...], ours the last of [N, C].
#include "lockstep/autograd/ops/elementwise.h"
#include "lockstep/autograd/ops/index.h"
#include "lockstep/autograd/ops/layout.h"
#include "lockstep/autograd/ops/loss.h"
#include "lockstep/autograd/ops/reduce.h"
#include "lockstep/autograd/ops/select.h"
#include "lockstep/autograd/ops/softmax.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tests/onnx/node.h"

namespace lockstep::testing {
namespace {

using Outputs = std::vector<Tensor>;

Variable rows_of(const Variable& x) {
  std::vector<int> dims{0};
  for (int i = 2; i < x.shape().ndim(); ++i) dims.push_back(i);
  dims.push_back(1);
  return reshape(permute(x, dims), {-1, x.data().dim(1)});
}

/// With class weights, or without a reduction, which the losses do not have: each row's loss is
/// gathered, and ignored rows get the weight 0.
Tensor loss_by_parts(const OnnxNode& n, const Variable& log_probs, const Tensor& targets,
                     int64_t ignore_index) {
  const int64_t rows = log_probs.data().dim(0), classes = log_probs.data().dim(1);
  const Tensor counts = ops::compare(CompareOp::kNe, targets, static_cast<double>(ignore_index));
  Tensor inside = ops::clone(targets);
  for (int64_t i = 0; i < rows; ++i) {
    if (counts.data<uint8_t>()[i] == 0) inside.mutable_data<int64_t>()[i] = 0;
  }
  const DType dtype = log_probs.data().dtype();
  const Variable zero(Tensor::zeros({}, dtype)), one(ops::full({}, 1, dtype));
  const Variable weights =
      n.has(2) ? reshape(embedding(reshape(n.var(2), {classes, 1}), inside), {-1}) : one;
  const Variable counted = where(counts, weights, zero);
  const Variable losses = -reshape(gather(log_probs, 1, inside.reshape({rows, 1})), {-1}) * counted;
  const std::string reduction = n.text("reduction", "mean");
  if (reduction == "none") return losses.data().reshape(n.tensor(1).shape());
  return (reduction == "sum" ? sum(losses) : sum(losses) / sum(counted)).data();
}

Tensor loss(const OnnxNode& n, bool of_logits) {
  const Variable rows = rows_of(n.var(0));
  const Tensor targets = ops::cast(n.tensor(1), DType::kI64).reshape({-1});
  const int64_t ignore = n.integer("ignore_index", -100);
  const std::string kind = n.text("reduction", "mean");
  if (n.has(2) || kind == "none") {
    return loss_by_parts(n, of_logits ? log_softmax(rows, 1) : rows, targets, ignore);
  }
  const Reduction reduction = kind == "sum" ? Reduction::kSum : Reduction::kMean;
  return of_logits
             ? cross_entropy(rows, targets, {.ignore_index = ignore, .reduction = reduction}).data()
             : nll_loss(rows, targets, {.ignore_index = ignore, .reduction = reduction}).data();
}

Outputs softmax_cross_entropy(const OnnxNode& n) {
  return {loss(n, true), log_softmax(n.var(0), 1).data()};
}

Outputs negative_log_likelihood(const OnnxNode& n) { return {loss(n, false)}; }

const OnnxAdapter kAdapters[] = {
    {"SoftmaxCrossEntropyLoss",
     "cross_entropy; with class weights or no reduction log_softmax, gather, embedding, where, sum",
     softmax_cross_entropy},
    {"NegativeLogLikelihoodLoss",
     "nll_loss; with class weights or no reduction gather, embedding, where, sum",
     negative_log_likelihood},
};

}  // namespace

std::span<const OnnxAdapter> loss_adapters() { return kAdapters; }

}  // namespace lockstep::testing
