#include "lockstep/autograd/ops/layout.h"

#include "lockstep/autograd/ops/policy.h"
#include "lockstep/autograd/record.h"
#include "lockstep/tensor/ops/layout.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace lockstep {
namespace {

Variable reshaped(const char* op, const Variable& x, Tensor y) {
  return record(op, std::move(y), {x}, [shape = x.shape()](const Tensor& grad_y, GradSink& sink) {
    sink.give(0, grad_y.reshape(shape));
  });
}

}  // namespace

Variable reshape(const Variable& x, const Shape& shape) {
  return reshaped("reshape", x, x.data().reshape(shape));
}

Variable reshape(const Variable& x, std::initializer_list<int64_t> dims) {
  return reshaped("reshape", x, x.data().reshape(dims));
}

Variable flatten(const Variable& x, int start_dim) {
  const int start = x.shape().axis(start_dim, "flatten");
  std::array<int64_t, Shape::kMaxDims> extent{};
  std::copy_n(x.shape().begin(), start, extent.begin());
  extent[static_cast<size_t>(start)] = x.shape().numel(start, x.shape().ndim());
  return reshaped("flatten", x, x.data().reshape(Shape(extent.data(), start + 1)));
}

Variable slice(const Variable& x, int64_t begin, int64_t end) {
  return record("slice", x.data().slice(begin, end), {x},
                [begin](const Tensor& grad_y, GradSink& sink) {
                  ops::slice_backward(grad_y, begin, sink.dest(0));
                });
}

Variable concat(const std::vector<Variable>& any_xs, int dim) {
  const bool wide = std::any_of(any_xs.begin(), any_xs.end(),
                                [](const Variable& x) { return x.dtype() == DType::kF32; });
  std::vector<Variable> xs;
  for (const Variable& x : any_xs) xs.push_back(policy::meet(x, wide ? DType::kF32 : x.dtype()));
  std::vector<Tensor> parts;
  parts.reserve(xs.size());
  for (const Variable& x : xs) parts.push_back(x.data());
  const Tensor y = ops::concat(parts, dim);
  std::vector<int64_t> extents;
  extents.reserve(xs.size());
  for (const Tensor& part : parts) extents.push_back(part.dim(dim));
  return record("concat", y, xs,
                [extents = std::move(extents), dim](const Tensor& grad_y, GradSink& sink) {
                  int64_t begin = 0;
                  for (size_t i = 0; i < extents.size(); ++i) {
                    const int input = static_cast<int>(i);
                    if (sink.wants(input)) ops::take_part(grad_y, dim, begin, sink.dest(input));
                    begin += extents[i];
                  }
                });
}

Variable permute(const Variable& x, const std::vector<int>& dims) {
  const std::vector<int> order = ops::checked_permutation(dims, x.data().ndim());
  return record("permute", ops::permute(x.data(), order), {x},
                [back = ops::inverse_permutation(order)](const Tensor& grad_y, GradSink& sink) {
                  ops::permute_to(grad_y, back, sink.dest(0));
                });
}

Variable transpose(const Variable& x, int dim0, int dim1) {
  const auto counted = [&](int dim) {
    return static_cast<size_t>(x.shape().axis(dim, "transpose"));
  };
  std::vector<int> dims(static_cast<size_t>(x.shape().ndim()));
  std::iota(dims.begin(), dims.end(), 0);
  std::swap(dims[counted(dim0)], dims[counted(dim1)]);
  return permute(x, dims);
}

}  // namespace lockstep
