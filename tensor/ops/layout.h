// Moving elements without changing them: parts, joins and transposes, always as dense copies. Any
// dtype, except that adding to a destination is for floating ones.
#pragma once

#include "lockstep/tensor/dest.h"
#include "lockstep/tensor/tensor.h"

#include <span>
#include <vector>

namespace lockstep {

/// A block of `rows` x `width` elements inside two dense tensors.
struct RowBlock {
  int64_t rows = 0;
  int64_t width = 0;
  int64_t from_offset = 0;  // of the first element
  int64_t from_pitch = 0;   // elements from one row to the next
  int64_t to_offset = 0;
  int64_t to_pitch = 0;
};

struct LayoutKernels {
  void (&copy_block)(const Tensor& from, const RowBlock& block, const Dest& to);
  // Dimension i of y is dimension dims[i] of x.
  void (&permute)(const Tensor& x, std::span<const int> dims, const Dest& y);
};

namespace ops {

/// The tensors one after the other along `dim`; they agree in dtype, device and all other extents.
/// At least one.
Tensor concat(std::span<const Tensor> xs, int dim);
/// Part `begin` .. `begin + part.extent(dim)` of `whole` along `dim`, written to `part`.
void take_part(const Tensor& whole, int dim, int64_t begin, const Dest& part);
/// The gradient of Tensor::slice: grad_x (+)= grad in the rows from `begin`, and 0 elsewhere.
void slice_backward(const Tensor& grad, int64_t begin, const Dest& grad_x);

/// Dimension i of the result is dimension dims[i] (negative: from the end) of x; `dims` names each
/// once.
Tensor permute(const Tensor& x, const std::vector<int>& dims);
/// y (+)= permute(x, dims).
void permute_to(const Tensor& x, const std::vector<int>& dims, const Dest& y);
/// `dims` made non-negative. Throws ArgumentError unless it names each of `ndim` dimensions once.
std::vector<int> checked_permutation(const std::vector<int>& dims, int ndim);
/// What undoes permute(x, dims); `dims` as checked_permutation returns them.
std::vector<int> inverse_permutation(const std::vector<int>& dims);

}  // namespace ops
}  // namespace lockstep
