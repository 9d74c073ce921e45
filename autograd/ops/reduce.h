// Sums, means and maxima over dimensions. f32, f64, bf16. Negative dimensions count from the end;
// with `keepdim` a reduced dimension stays with extent 1.
#pragma once

#include "lockstep/autograd/variable.h"

#include <vector>

namespace lockstep {

/// Of all elements: shape []. The mean of nothing is NaN.
Variable sum(const Variable& x);
Variable mean(const Variable& x);
/// Over `dims`, each named once.
Variable sum(const Variable& x, const std::vector<int>& dims, bool keepdim = false);
Variable mean(const Variable& x, const std::vector<int>& dims, bool keepdim = false);

struct MaxOutput {
  Variable values;
  Tensor indices;  // i64: positions in the dimension; of equal values the first; of NaNs, which
                   // win, the first
};
/// The largest value along `dim`; its gradient goes to the element at `indices`.
MaxOutput max(const Variable& x, int dim, bool keepdim = false);

}  // namespace lockstep
