// Operators that move elements or read them at positions, and those that tell a shape.
#include "lockstep/autograd/ops/index.h"
#include "lockstep/autograd/ops/layout.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tensor/ops/elementwise.h"
#include "lockstep/tensor/ops/layout.h"
#include "lockstep/tensor/ops/reduce.h"
#include "lockstep/tests/onnx/node.h"

#include <algorithm>
#include <numeric>

namespace lockstep::testing {
namespace {

using Outputs = std::vector<Tensor>;

Shape shape_of(const std::vector<int64_t>& dims) {
  return Shape(dims.data(), static_cast<int>(dims.size()));
}
std::vector<int64_t> dims_of(const Tensor& x) { return {x.shape().begin(), x.shape().end()}; }
Tensor numbers(const std::vector<int64_t>& values) {
  return Tensor::from(values, {static_cast<int64_t>(values.size())});
}

Outputs reshape_adapter(const OnnxNode& n) {
  std::vector<int64_t> dims = n.list(1);
  if (n.integer("allowzero", 0) == 0) {
    for (size_t i = 0; i < dims.size(); ++i) {
      if (dims[i] == 0) dims[i] = n.tensor(0).dim(static_cast<int>(i));
    }
  }
  const auto derived = std::find(dims.begin(), dims.end(), -1);
  if (derived != dims.end()) {
    *derived = 1;
    *derived = n.tensor(0).numel() / shape_of(dims).numel();
  }
  return {reshape(Variable(n.tensor(0)), shape_of(dims)).data()};
}

Outputs flatten_adapter(const OnnxNode& n) {
  const Shape& shape = n.tensor(0).shape();
  int64_t axis = n.integer("axis", 1);
  if (axis < 0) axis += shape.ndim();
  return {reshape(Variable(n.tensor(0)), Shape{shape.numel(0, static_cast<int>(axis)),
                                               shape.numel(static_cast<int>(axis), shape.ndim())})
              .data()};
}

/// The axes named by an attribute (older) or input 1, non-negative for `ndim` dimensions.
std::vector<int64_t> axes_of(const OnnxNode& n, int64_t ndim) {
  std::vector<int64_t> axes = n.has(1) ? n.list(1) : n.integers("axes");
  for (int64_t& axis : axes) axis += axis < 0 ? ndim : 0;
  std::sort(axes.begin(), axes.end());
  return axes;
}

Outputs squeeze(const OnnxNode& n) {
  const std::vector<int64_t> axes = axes_of(n, n.tensor(0).ndim());
  std::vector<int64_t> dims;
  for (int64_t i = 0; i < n.tensor(0).ndim(); ++i) {
    const int64_t extent = n.tensor(0).dim(static_cast<int>(i));
    const bool named = std::count(axes.begin(), axes.end(), i) > 0;
    if (axes.empty() ? extent != 1 : !named) dims.push_back(extent);
  }
  return {reshape(Variable(n.tensor(0)), shape_of(dims)).data()};
}

Outputs unsqueeze(const OnnxNode& n) {
  const auto added = static_cast<int64_t>(n.has(1) ? n.list(1).size() : n.integers("axes").size());
  std::vector<int64_t> dims = dims_of(n.tensor(0));
  for (const int64_t axis : axes_of(n, n.tensor(0).ndim() + added)) {
    dims.insert(dims.begin() + axis, 1);
  }
  return {reshape(Variable(n.tensor(0)), shape_of(dims)).data()};
}

Outputs transpose_adapter(const OnnxNode& n) {
  std::vector<int> dims(static_cast<size_t>(n.tensor(0).ndim()));
  std::iota(dims.rbegin(), dims.rend(), 0);
  if (n.has_attribute("perm")) {
    const std::vector<int64_t> perm = n.integers("perm");
    dims.assign(perm.begin(), perm.end());
  }
  return {permute(Variable(n.tensor(0)), dims).data()};
}

Outputs concat_adapter(const OnnxNode& n) {
  std::vector<Variable> xs;
  for (size_t i = 0; i < n.inputs(); ++i) xs.emplace_back(n.tensor(i));
  return {concat(xs, static_cast<int>(n.integer("axis", 1))).data()};
}

Tensor part(const Tensor& x, int axis, int64_t begin, int64_t end) {
  if (x.shape().axis(axis, "slice") == 0) return slice(Variable(x), begin, end).data();
  Tensor y = Tensor::empty(x.shape().with_dim(axis, end - begin), x.dtype());
  ops::take_part(x, axis, begin, {y});
  return y;
}

Outputs split(const OnnxNode& n) {
  const int axis = static_cast<int>(n.integer("axis", 0));
  const auto pieces = static_cast<int64_t>(n.outputs());
  std::vector<int64_t> sizes = n.has(1) ? n.list(1) : n.integers("split");
  if (sizes.empty()) sizes.assign(n.outputs(), n.tensor(0).dim(axis) / pieces);
  Outputs parts;
  int64_t begin = 0;
  for (const int64_t size : sizes) {
    parts.push_back(part(n.tensor(0), axis, begin, begin + size));
    begin += size;
  }
  return parts;
}

Outputs slice_adapter(const OnnxNode& n) {
  Tensor x = n.tensor(0);
  const bool inputs = n.has(1);
  const auto starts = inputs ? n.list(1) : n.integers("starts");
  const auto ends = inputs ? n.list(2) : n.integers("ends");
  std::vector<int64_t> axes(starts.size());
  std::iota(axes.begin(), axes.end(), 0);
  axes = n.has(3) ? n.list(3) : n.integers("axes", axes);
  for (size_t i = 0; i < starts.size(); ++i) {
    unless(!n.has(4) || n.list(4)[i] == 1, "steps other than 1");
    const int axis = static_cast<int>(axes[i]);
    const int64_t extent = x.dim(axis);
    const auto clamped = [&](int64_t at) {
      return std::clamp(at < 0 ? at + extent : at, int64_t{0}, extent);
    };
    const int64_t begin = clamped(starts[i]);
    x = part(x, axis, begin, std::max(begin, clamped(ends[i])));
  }
  return {x};
}

Outputs expand(const OnnxNode& n) {
  const Tensor x = n.var(0).data();
  Tensor y =
      Tensor::empty(ops::broadcast_shapes(x.shape(), shape_of(n.list(1)), "Expand"), x.dtype());
  ops::broadcast_to(x, 1, {y});
  return {y};
}

Outputs tile(const OnnxNode& n) {
  Variable x(n.tensor(0));
  const std::vector<int64_t> repeats = n.list(1);
  for (size_t i = 0; i < repeats.size(); ++i) {
    x = concat(std::vector<Variable>(static_cast<size_t>(repeats[i]), x), static_cast<int>(i));
  }
  return {x.data()};
}

Outputs depth_to_space(const OnnxNode& n) {
  const Variable x(n.tensor(0));
  const int64_t b = n.integer("blocksize", 1), batch = x.data().dim(0), height = x.data().dim(2),
                width = x.data().dim(3), depth = x.data().dim(1) / (b * b);
  const bool columns_first = n.text("mode", "DCR") == "CRD";
  const Variable blocks = columns_first ? reshape(x, {batch, depth, b, b, height, width})
                                        : reshape(x, {batch, b, b, depth, height, width});
  const std::vector<int> order =
      columns_first ? std::vector<int>{0, 1, 4, 2, 5, 3} : std::vector<int>{0, 3, 4, 1, 5, 2};
  return {reshape(permute(blocks, order), {batch, depth, height * b, width * b}).data()};
}

Outputs space_to_depth(const OnnxNode& n) {
  const Variable x(n.tensor(0));
  const int64_t b = n.integer("blocksize", 1), batch = x.data().dim(0), depth = x.data().dim(1),
                height = x.data().dim(2) / b, width = x.data().dim(3) / b;
  const Variable blocks = reshape(x, {batch, depth, height, b, width, b});
  return {
      reshape(permute(blocks, {0, 3, 5, 1, 2, 4}), {batch, b * b * depth, height, width}).data()};
}

Tensor positions(const Tensor& index) {
  Tensor wide = ops::cast(index, DType::kI64);
  for (const int64_t i : wide.to_vector<int64_t>()) {
    unless(i >= 0, "negative positions, which are errors here");
  }
  return wide;
}

/// Rows along an axis: it goes to the front, and the dimensions of the index come in its place.
Outputs gather_rows(const OnnxNode& n) {
  const Variable x = n.var(0);
  const int ndim = x.data().ndim();
  const int axis = x.data().shape().axis(static_cast<int>(n.integer("axis", 0)), "Gather");
  std::vector<int> to_front(static_cast<size_t>(ndim));
  std::iota(to_front.begin(), to_front.end(), 0);
  std::rotate(to_front.begin(), to_front.begin() + axis, to_front.begin() + axis + 1);
  const Variable front = permute(x, to_front);
  const Variable rows = embedding(reshape(front, {x.data().dim(axis), -1}), positions(n.tensor(1)));
  std::vector<int64_t> dims = dims_of(n.tensor(1));
  dims.insert(dims.end(), front.shape().begin() + 1, front.shape().end());
  std::vector<int> back(dims.size());
  std::iota(back.begin(), back.end(), 0);
  std::rotate(back.begin(), back.begin() + n.tensor(1).ndim(),
              back.begin() + n.tensor(1).ndim() + axis);
  return {permute(reshape(rows, shape_of(dims)), back).data()};
}

Outputs gather_elements(const OnnxNode& n) {
  return {gather(n.var(0), static_cast<int>(n.integer("axis", 0)), positions(n.tensor(1))).data()};
}

Outputs scatter_elements(const OnnxNode& n) {
  unless(n.text("reduction", "none") == "add", "overwrites instead of adding");
  return {scatter_add(n.var(0), static_cast<int>(n.integer("axis", 0)), positions(n.tensor(1)),
                      n.var(2))
              .data()};
}

Outputs shape_adapter(const OnnxNode& n) {
  const std::vector<int64_t> dims = dims_of(n.tensor(0));
  const auto ndim = static_cast<int64_t>(dims.size());
  const auto clamped = [&](int64_t at) {
    return std::clamp(at < 0 ? at + ndim : at, int64_t{0}, ndim);
  };
  const int64_t begin = clamped(n.integer("start", 0));
  const int64_t end = std::max(begin, clamped(n.integer("end", ndim)));
  return {numbers({dims.begin() + begin, dims.begin() + end})};
}

Outputs constant(const OnnxNode& n) {
  if (n.has_attribute("value")) return {n.value("value")};
  if (n.has_attribute("value_int")) return {Tensor::from<int64_t>({n.integer("value_int", 0)}, {})};
  if (n.has_attribute("value_ints")) return {numbers(n.integers("value_ints"))};
  unless(n.has_attribute("value_float"), "a constant that is no tensor");
  return {Tensor::from<float>({static_cast<float>(n.number("value_float", 0))}, {})};
}

Outputs constant_of_shape(const OnnxNode& n) {
  const Shape shape = shape_of(n.list(0));
  if (!n.has_attribute("value")) return {Tensor::zeros(shape, DType::kF32)};
  return {ops::full(shape, n.value("value").item(), n.value("value").dtype())};
}

const OnnxAdapter kAdapters[] = {
    {"Identity", "a handle's copy", [](const OnnxNode& n) -> Outputs { return {n.tensor(0)}; }},
    {"Reshape", "reshape", reshape_adapter},
    {"Flatten", "reshape", flatten_adapter},
    {"Squeeze", "reshape", squeeze},
    {"Unsqueeze", "reshape", unsqueeze},
    {"Transpose", "permute", transpose_adapter},
    {"Concat", "concat", concat_adapter},
    {"Split", "slice, ops::take_part", split},
    {"Slice", "slice, ops::take_part", slice_adapter},
    {"Expand", "ops::broadcast_to", expand},
    {"Tile", "concat", tile},
    {"DepthToSpace", "reshape, permute", depth_to_space},
    {"SpaceToDepth", "reshape, permute", space_to_depth},
    {"Gather", "embedding, permute", gather_rows},
    {"GatherElements", "gather", gather_elements},
    {"ScatterElements", "scatter_add", scatter_elements},
    {"Shape", "shape()", shape_adapter},
    {"Size", "numel()",
     [](const OnnxNode& n) -> Outputs {
       return {Tensor::from<int64_t>({n.tensor(0).numel()}, {})};
     }},
    {"Constant", "Tensor::from", constant},
    {"ConstantOfShape", "ops::full", constant_of_shape},
};

}  // namespace

std::span<const OnnxAdapter> layout_adapters() { return kAdapters; }

}  // namespace lockstep::testing
