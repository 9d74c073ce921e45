// Reading and adding at positions that a tensor of indexes names.
#pragma once

#include "lockstep/tensor/dest.h"
#include "lockstep/tensor/tensor.h"

#include <cstdint>

namespace lockstep {

struct IndexKernels {
  void (&gather)(const Tensor& x, int dim, const Tensor& index, const Dest& y);
  void (&scatter_add)(const Tensor& x, int dim, const Tensor& index, Tensor& y);
  void (&embedding)(const Tensor& weight, const Tensor& ids, Tensor& y);
  void (&embedding_backward)(const Tensor& grad_y, const Tensor& ids, int64_t padding_idx,
                             const Dest& grad_weight);
};

namespace ops {

/// y[..., i, ...] = x[..., index[..., i, ...], ...] along `dim` (negative: from the end). `index`
/// is i64, has as many dimensions as x and at most its extents elsewhere; y has its shape. x is
/// f32, f64 or bf16. An index outside [0, extent) throws ArgumentError; on a GPU, which nobody
/// waits for, NaN is read there, and by the other ops nothing is added.
Tensor gather(const Tensor& x, int dim, const Tensor& index);
/// The same, y (+)= it.
void gather(const Tensor& x, int dim, const Tensor& index, const Dest& y);
/// y[..., index[..., i, ...], ...] += x[..., i, ...] along `dim`: the gradient of gather, where x
/// has index's shape. Values that meet are added in the order of i, whatever the number of threads.
void scatter_add(const Tensor& x, int dim, const Tensor& index, Tensor& y);

/// The rows of weight [V, D] that ids (i64, any shape) name: [..., D]. An id outside [0, V) throws
/// ArgumentError, or reads NaN (see gather).
Tensor embedding(const Tensor& weight, const Tensor& ids);
/// grad_weight [V, D] (+)= the rows of grad_y [..., D], each added to the row of its id, in the
/// order of ids whatever the number of threads. Those whose id is padding_idx (negative: none) are
/// left out. Each row of grad_weight is written once, with its sum or with zeros.
void embedding_backward(const Tensor& grad_y, const Tensor& ids, int64_t padding_idx,
                        const Dest& grad_weight);

}  // namespace ops
}  // namespace lockstep
