#include "lockstep/tensor/ops/layout.h"

#include "lockstep/tensor/backend.h"
#include "lockstep/tensor/ops/copy.h"

#include <array>

namespace lockstep::ops {
namespace {

/// The block that `part` is within `whole`, as rows of the dimensions from `dim` on.
struct Part {
  int64_t rows, width, whole_pitch, whole_offset;
};
Part part_of(const Shape& whole, const Shape& part, int dim, int64_t begin) {
  const int64_t inner = whole.numel(dim + 1, whole.ndim());
  return {whole.numel(0, dim), part[dim] * inner, whole[dim] * inner, begin * inner};
}

Shape permuted_shape(const Shape& shape, const std::vector<int>& dims) {
  std::array<int64_t, Shape::kMaxDims> extent{};
  for (size_t i = 0; i < dims.size(); ++i) extent[i] = shape[dims[i]];
  return Shape(extent.data(), shape.ndim());
}

}  // namespace

Tensor concat(std::span<const Tensor> xs, int dim) {
  check(!xs.empty(), "concat: wanted at least one tensor");
  const Tensor& first = xs.front();
  const int at = first.shape().axis(dim, "concat");
  int64_t extent = 0;
  for (const Tensor& x : xs) {
    check(x.dtype() == first.dtype() && x.device() == first.device(),
          "concat: ", name_of(x.dtype()), " on ", to_string(x.device()), " with ",
          name_of(first.dtype()), " on ", to_string(first.device()));
    check(x.ndim() == first.ndim() && x.shape().with_dim(at, first.dim(at)) == first.shape(),
          "concat: ", x.shape(), " does not fit ", first.shape(), " outside dimension ", dim);
    extent += x.dim(at);
  }
  const Tensor y = Tensor::empty(first.shape().with_dim(at, extent), first.dtype(), first.device());
  int64_t begin = 0;
  for (const Tensor& x : xs) {
    const Part part = part_of(y.shape(), x.shape(), at, begin);
    backend(y.device())
        .layout.copy_block(x,
                           {.rows = part.rows,
                            .width = part.width,
                            .from_pitch = part.width,
                            .to_offset = part.whole_offset,
                            .to_pitch = part.whole_pitch},
                           {y});
    begin += x.dim(at);
  }
  return y;
}

void take_part(const Tensor& whole, int dim, int64_t begin, const Dest& to) {
  const int at = whole.shape().axis(dim, "take_part");
  const Shape& shape = to.out.shape();
  check(shape.ndim() == whole.ndim() && shape.with_dim(at, whole.dim(at)) == whole.shape() &&
            begin >= 0 && begin + shape[at] <= whole.dim(at) && to.out.dtype() == whole.dtype(),
        "take_part: ", shape, " at ", begin, " of dimension ", dim, " is not a part of ",
        whole.shape());
  const Part part = part_of(whole.shape(), shape, at, begin);
  backend(whole.device())
      .layout.copy_block(whole,
                         {.rows = part.rows,
                          .width = part.width,
                          .from_offset = part.whole_offset,
                          .from_pitch = part.whole_pitch,
                          .to_pitch = part.width},
                         to);
}

void slice_backward(const Tensor& grad, int64_t begin, const Dest& grad_x) {
  const int64_t end = begin + grad.dim(0);
  Tensor rows = grad_x.out.slice(begin, end);
  check(rows.shape() == grad.shape(), "slice_backward: gradient of ", grad.shape(), " for rows of ",
        grad_x.out.shape());
  if (grad_x.accumulate) {
    add_scaled(grad, 1.0, rows);
    return;
  }
  copy(grad, rows);
  for (Tensor rest : {grad_x.out.slice(0, begin), grad_x.out.slice(end, grad_x.out.dim(0))})
    fill(rest, 0);
}

std::vector<int> checked_permutation(const std::vector<int>& dims, int ndim) {
  check(static_cast<int>(dims.size()) == ndim, "permute: wanted ", ndim, " dimensions, got ",
        dims.size());
  std::array<bool, Shape::kMaxDims> seen{};
  std::vector<int> result = dims;
  for (int& dim : result) {
    const int given = dim;
    if (dim < 0) dim += ndim;
    check(dim >= 0 && dim < ndim, "permute: dimension ", given, " of ", ndim, " does not exist");
    check(!seen[static_cast<size_t>(dim)], "permute: dimension ", given, " is named twice");
    seen[static_cast<size_t>(dim)] = true;
  }
  return result;
}

std::vector<int> inverse_permutation(const std::vector<int>& dims) {
  std::vector<int> inverse(dims.size());
  for (size_t i = 0; i < dims.size(); ++i)
    inverse[static_cast<size_t>(dims[i])] = static_cast<int>(i);
  return inverse;
}

Tensor permute(const Tensor& x, const std::vector<int>& dims) {
  const std::vector<int> order = checked_permutation(dims, x.ndim());
  const Tensor y = Tensor::empty(permuted_shape(x.shape(), order), x.dtype(), x.device());
  backend(x.device()).layout.permute(x, order, {y});
  return y;
}

void permute_to(const Tensor& x, const std::vector<int>& dims, const Dest& y) {
  const std::vector<int> order = checked_permutation(dims, x.ndim());
  check(y.out.dtype() == x.dtype() && y.out.shape() == permuted_shape(x.shape(), order),
        "permute: from ", x.shape(), " to ", y.out.shape());
  backend(x.device()).layout.permute(x, order, y);
}

}  // namespace lockstep::ops
