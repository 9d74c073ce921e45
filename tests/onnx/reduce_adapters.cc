// Sums, means and extremes over dimensions; matrix products; softmax.
#include "lockstep/autograd/ops/activation.h"
#include "lockstep/autograd/ops/elementwise.h"
#include "lockstep/autograd/ops/layout.h"
#include "lockstep/autograd/ops/matmul.h"
#include "lockstep/autograd/ops/reduce.h"
#include "lockstep/autograd/ops/select.h"
#include "lockstep/autograd/ops/softmax.h"
#include "lockstep/tensor/ops/reduce.h"
#include "lockstep/tests/onnx/node.h"

#include <algorithm>
#include <numeric>

namespace lockstep::testing {
namespace {

using Outputs = std::vector<Tensor>;

/// What to reduce: the axes named by input 1 or (older) an attribute, else all of them.
std::vector<int> axes_of(const OnnxNode& n) {
  std::vector<int64_t> named = n.has(1) ? n.list(1) : n.integers("axes");
  std::vector<int> axes(named.begin(), named.end());
  if (axes.empty() && n.integer("noop_with_empty_axes", 0) == 0) {
    axes.resize(static_cast<size_t>(n.tensor(0).ndim()));
    std::iota(axes.begin(), axes.end(), 0);
  }
  return axes;
}
bool keeps(const OnnxNode& n) { return n.integer("keepdims", 1) != 0; }

Variable sum_of(const OnnxNode& n, const Variable& x) { return sum(x, axes_of(n), keeps(n)); }

Variable max_of(const OnnxNode& n, Variable x) {
  const std::vector<int> axes = axes_of(n);
  for (const int axis : axes) x = max(x, axis, true).values;
  return keeps(n) ? x : reshape(x, ops::without_dims(x.shape(), axes));
}

Outputs reduce_l1(const OnnxNode& n) {
  const Variable x = n.var(0);
  return {sum_of(n, where(lt(x, 0), -x, x)).data()};
}

Outputs arg_max(const OnnxNode& n, const Variable& x) {
  unless(n.integer("select_last_index", 0) == 0, "of equal values the last; here the first");
  return {max(x, static_cast<int>(n.integer("axis", 0)), keeps(n)).indices};
}

Outputs matmul_adapter(const OnnxNode& n) { return {matmul(n.var(0), n.var(1)).data()}; }

Outputs gemm(const OnnxNode& n) {
  const double alpha = n.number("alpha", 1), beta = n.number("beta", 1);
  const MatmulOptions options{.transpose_a = n.integer("transA", 0) != 0,
                              .transpose_b = n.integer("transB", 0) != 0};
  const Variable c = n.optional_var(2);
  // A bias [n] or [1, n] is linear's.
  const bool row = !c.defined() || (c.data().numel() > 1 && c.data().numel() == c.data().dim(-1));
  if (alpha == 1 && beta == 1 && !options.transpose_a && row) {
    const Variable weight = options.transpose_b ? n.var(1) : transpose(n.var(1), 0, 1);
    return {linear(n.var(0), weight, c.defined() ? reshape(c, {-1}) : c).data()};
  }
  Variable y = scale(matmul(n.var(0), n.var(1), options), alpha);
  if (c.defined()) y = y + scale(c, beta);
  return {y.data()};
}

template <Variable (*op)(const Variable&, int)>
Outputs over_axis(const OnnxNode& n) {
  const Variable x = n.var(0);
  if (n.opset() >= 13) return {op(x, static_cast<int>(n.integer("axis", -1))).data()};
  // Before opset 13 all dimensions from the axis on are one.
  const int axis = x.shape().axis(static_cast<int>(n.integer("axis", 1)), "Softmax");
  const Variable rows = reshape(x, {x.shape().numel(0, axis), -1});
  return {reshape(op(rows, -1), x.shape()).data()};
}

const OnnxAdapter kAdapters[] = {
    {"ReduceSum", "sum", [](const OnnxNode& n) -> Outputs { return {sum_of(n, n.var(0)).data()}; }},
    {"ReduceMean", "mean",
     [](const OnnxNode& n) -> Outputs { return {mean(n.var(0), axes_of(n), keeps(n)).data()}; }},
    {"ReduceMax", "max", [](const OnnxNode& n) -> Outputs { return {max_of(n, n.var(0)).data()}; }},
    {"ReduceMin", "neg, max",
     [](const OnnxNode& n) -> Outputs { return {neg(max_of(n, neg(n.var(0)))).data()}; }},
    {"ReduceL1", "where, sum", reduce_l1},
    {"ReduceL2", "mul, sum, sqrt",
     [](const OnnxNode& n) -> Outputs { return {sqrt(sum_of(n, n.var(0) * n.var(0))).data()}; }},
    {"ReduceSumSquare", "mul, sum",
     [](const OnnxNode& n) -> Outputs { return {sum_of(n, n.var(0) * n.var(0)).data()}; }},
    {"ReduceLogSum", "sum, log",
     [](const OnnxNode& n) -> Outputs { return {log(sum_of(n, n.var(0))).data()}; }},
    {"ReduceLogSumExp", "exp, sum, log",
     [](const OnnxNode& n) -> Outputs { return {log(sum_of(n, exp(n.var(0)))).data()}; }},
    {"ArgMax", "max", [](const OnnxNode& n) { return arg_max(n, n.var(0)); }},
    {"ArgMin", "neg, max", [](const OnnxNode& n) { return arg_max(n, neg(n.var(0))); }},
    {"MatMul", "matmul", matmul_adapter},
    {"Gemm", "linear; matmul, scale, add", gemm},
    {"Softmax", "softmax", over_axis<softmax>},
    {"LogSoftmax", "log_softmax", over_axis<log_softmax>},
};

}  // namespace

std::span<const OnnxAdapter> reduce_adapters() { return kAdapters; }

}  // namespace lockstep::testing
