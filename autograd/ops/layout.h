// Shapes, parts, joins and transposes. reshape, flatten and slice share their input's memory; the
// others copy.
#pragma once

#include "lockstep/autograd/variable.h"

#include <initializer_list>
#include <vector>

namespace lockstep {

/// The same elements under another shape; in braces one extent may be -1 and is derived.
Variable reshape(const Variable& x, const Shape& shape);
Variable reshape(const Variable& x, std::initializer_list<int64_t> dims);
/// The dimensions from `start_dim` on made one: [N, H, W, C] with 1 gives [N, H * W * C].
Variable flatten(const Variable& x, int start_dim = 1);
/// The rows [begin, end) of the outermost dimension.
Variable slice(const Variable& x, int64_t begin, int64_t end);
/// One after the other along `dim` (negative: from the end); all other extents agree.
Variable concat(const std::vector<Variable>& xs, int dim);
/// Dimension i of the result is dimension dims[i] of x; `dims` names each dimension once.
Variable permute(const Variable& x, const std::vector<int>& dims);
/// Two dimensions change places.
Variable transpose(const Variable& x, int dim0, int dim1);

}  // namespace lockstep
