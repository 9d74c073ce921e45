// Losses between tensors of one shape: mean squared error, binary cross-entropy, cosine embedding.
#pragma once

#include "lockstep/tensor/dest.h"
#include "lockstep/tensor/ops/loss.h"
#include "lockstep/tensor/tensor.h"

namespace lockstep {

struct PairLossKernels {
  void (&mse)(const Tensor& x, const Tensor& target, double factor, Tensor& loss);
  void (&mse_backward)(const Tensor& grad_loss, const Tensor& x, const Tensor& target,
                       double factor, const Dest& grad_x);
  void (&bce_with_logits)(const Tensor& logits, const Tensor& targets, const Tensor& pos_weight,
                          double factor, Tensor& loss);
  void (&bce_with_logits_backward)(const Tensor& grad_loss, const Tensor& logits,
                                   const Tensor& targets, const Tensor& pos_weight, double factor,
                                   const Dest& grad_logits);
  void (&cosine_embedding)(const Tensor& a, const Tensor& b, const Tensor& labels, double margin,
                           double factor, Tensor& loss);
  void (&cosine_embedding_backward)(const Tensor& grad_loss, const Tensor& a, const Tensor& b,
                                    const Tensor& labels, double margin, double factor,
                                    const Dest& grad_a);
};

namespace ops {

// Each loss is a scalar in f32, or f64 for f64 inputs, added up in f64 in an order that depends on
// the shape alone. The mean of nothing is 0.

/// The mean (or sum) of (x - target)^2. One shape and dtype: f32, f64 or bf16.
Tensor mse(const Tensor& x, const Tensor& target, Reduction reduction);
/// grad_x (+)= grad_loss * 2 (x - target), over the count for the mean. With the arguments
/// exchanged: the gradient of target.
void mse_backward(const Tensor& grad_loss, const Tensor& x, const Tensor& target,
                  Reduction reduction, const Dest& grad_x);

/// The mean (or sum) of -(w y log s(x) + (1 - y) log(1 - s(x))) for logits x and targets y in
/// [0, 1] of one shape and dtype, s the sigmoid, without overflow. w is pos_weight, [C] for the
/// last dimension, in the same dtype; undefined: 1.
Tensor bce_with_logits(const Tensor& logits, const Tensor& targets, const Tensor& pos_weight,
                       Reduction reduction);
void bce_with_logits_backward(const Tensor& grad_loss, const Tensor& logits, const Tensor& targets,
                              const Tensor& pos_weight, Reduction reduction,
                              const Dest& grad_logits);

/// For rows a and b [N, D] and labels i64 [N], the mean (or sum) over the rows of 1 - cos(a, b)
/// where the label is 1, and max(0, cos(a, b) - margin) where it is -1; any other label throws
/// ArgumentError, or on a GPU makes the loss NaN. Of a row of zeros the cosine is 0.
Tensor cosine_embedding(const Tensor& a, const Tensor& b, const Tensor& labels, double margin,
                        Reduction reduction);
/// The gradient of a; with a and b exchanged, that of b.
void cosine_embedding_backward(const Tensor& grad_loss, const Tensor& a, const Tensor& b,
                               const Tensor& labels, double margin, Reduction reduction,
                               const Dest& grad_a);

}  // namespace ops
}  // namespace lockstep
