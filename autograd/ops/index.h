// Reading and adding at positions that a tensor of indexes (i64) names. An index that points
// outside throws ArgumentError with its place and value.
#pragma once

#include "lockstep/autograd/variable.h"

#include <cstdint>

namespace lockstep {

/// y[..., i, ...] = x[..., index[..., i, ...], ...] along `dim` (negative: from the end). `index`
/// has as many dimensions as x and at most its extents elsewhere; y has its shape. f32, f64, bf16.
Variable gather(const Variable& x, int dim, const Tensor& index);

/// A copy of x in which y[..., index[..., i, ...], ...] += source[..., i, ...] along `dim`; source
/// has index's shape. Values that meet are added in the order of i: the same bits for any number of
/// threads.
Variable scatter_add(const Variable& x, int dim, const Tensor& index, const Variable& source);

struct EmbeddingOptions {
  /// Rows looked up by this id get no gradient from it; negative: none.
  int64_t padding_idx = -1;
};
/// The rows of weight [V, D] that ids (any shape) name: [..., D]. The gradient of weight is added
/// up in the order of ids, the same bits for any number of threads, straight into its destination.
Variable embedding(const Variable& weight, const Tensor& ids, const EmbeddingOptions& options = {});

}  // namespace lockstep
