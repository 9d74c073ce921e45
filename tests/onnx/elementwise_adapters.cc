// Operators that work element by element.
#include "lockstep/autograd/ops/activation.h"
#include "lockstep/autograd/ops/elementwise.h"
#include "lockstep/autograd/ops/select.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tests/onnx/node.h"
#include "lockstep/tests/onnx/proto.h"

#include <limits>

namespace lockstep::testing {
namespace {

using Outputs = std::vector<Tensor>;

template <Variable (*op)(const Variable&)>
Outputs unary(const OnnxNode& n) {
  return {op(n.var(0)).data()};
}

template <Variable (*op)(const Variable&, const Variable&)>
Outputs binary(const OnnxNode& n) {
  return {op(n.var(0), n.var(1)).data()};
}

/// Of one input or more: op(op(a, b), c) ...
template <Variable (*op)(const Variable&, const Variable&)>
Outputs fold(const OnnxNode& n) {
  Variable y = n.var(0);
  for (size_t i = 1; i < n.inputs(); ++i) y = op(y, n.var(i));
  return {y.data()};
}

template <CompareOp op>
Outputs compare(const OnnxNode& n) {
  unless(n.tensor(0).dtype() != DType::kF16, "dtype f16");
  return {ops::compare(op, n.tensor(0), n.tensor(1))};
}

Variable larger(const Variable& a, const Variable& b) { return where(gt(a, b), a, b); }
Variable smaller(const Variable& a, const Variable& b) { return where(lt(a, b), a, b); }
Variable absolute(const Variable& x) { return where(lt(x, 0), -x, x); }
Variable reciprocal(const Variable& x) { return Variable(ops::full({}, 1, x.data().dtype())) / x; }

Outputs mean_of_inputs(const OnnxNode& n) {
  return {scale(Variable(fold<add>(n)[0]), 1.0 / static_cast<double>(n.inputs())).data()};
}

Outputs clip(const OnnxNode& n) {
  unless(!n.has_attribute("min") && !n.has_attribute("max"),
         "bounds as attributes (before opset 11)");
  Variable x = n.var(0);
  if (n.has(1)) x = larger(x, n.var(1));
  if (n.has(2)) x = smaller(x, n.var(2));
  return {x.data()};
}

Outputs is_inf(const OnnxNode& n) {
  const bool positive = n.integer("detect_positive", 1) != 0;
  const bool negative = n.integer("detect_negative", 1) != 0;
  const double infinity = std::numeric_limits<double>::infinity();
  const Variable x = positive && negative ? absolute(n.var(0)) : n.var(0);
  return {eq(x, positive ? infinity : -infinity)};
}

Outputs where_adapter(const OnnxNode& n) { return {where(n.tensor(0), n.var(1), n.var(2)).data()}; }

Outputs cast(const OnnxNode& n, int64_t to) {
  switch (to) {
    case onnx::TensorProto::FLOAT:
      return {ops::cast(n.tensor(0), DType::kF32)};
    case onnx::TensorProto::DOUBLE:
      return {ops::cast(n.tensor(0), DType::kF64)};
    case onnx::TensorProto::FLOAT16:
      return {ops::cast(n.tensor(0), DType::kF16)};
    case onnx::TensorProto::BFLOAT16:
      return {ops::cast(n.tensor(0), DType::kBF16)};
    case onnx::TensorProto::INT64:
      return {ops::cast(n.tensor(0), DType::kI64)};
    case onnx::TensorProto::INT32:
      return {ops::cast(n.tensor(0), DType::kI32)};
    case onnx::TensorProto::BOOL:
      return {ops::compare(CompareOp::kNe, n.tensor(0), 0)};
    default:
      throw NotMapped{"dtype string"};
  }
}

const OnnxAdapter kAdapters[] = {
    {"Relu", "relu", unary<relu>},
    {"Sigmoid", "sigmoid", unary<sigmoid>},
    {"Tanh", "tanh", unary<tanh>},
    {"Exp", "exp", unary<exp>},
    {"Log", "log", unary<log>},
    {"Sqrt", "sqrt", unary<sqrt>},
    {"Neg", "neg", unary<neg>},
    {"Abs", "where, lt, neg", unary<absolute>},
    {"Reciprocal", "div", unary<reciprocal>},
    {"Add", "add", binary<add>},
    {"Sub", "sub", binary<sub>},
    {"Mul", "mul", binary<mul>},
    {"Div", "div", binary<div>},
    {"Sum", "add", fold<add>},
    {"Mean", "add, scale", mean_of_inputs},
    {"Max", "where, gt", fold<larger>},
    {"Min", "where, lt", fold<smaller>},
    {"Clip", "where, gt, lt", clip},
    {"Greater", "gt", compare<CompareOp::kGt>},
    {"GreaterOrEqual", "ge", compare<CompareOp::kGe>},
    {"Less", "lt", compare<CompareOp::kLt>},
    {"LessOrEqual", "le", compare<CompareOp::kLe>},
    {"Equal", "eq", compare<CompareOp::kEq>},
    {"Not", "eq",
     [](const OnnxNode& n) -> Outputs { return {ops::compare(CompareOp::kEq, n.tensor(0), 0)}; }},
    {"IsNaN", "ne",
     [](const OnnxNode& n) -> Outputs {
       return {ops::compare(CompareOp::kNe, n.tensor(0), n.tensor(0))};
     }},
    {"IsInf", "eq, where, lt, neg", is_inf},
    {"Where", "where", where_adapter},
    {"Cast", "ops::cast", [](const OnnxNode& n) { return cast(n, n.integer("to", 0)); }},
    {"CastLike", "ops::cast",
     [](const OnnxNode& n) -> Outputs { return {ops::cast(n.tensor(0), n.tensor(1).dtype())}; }},
};

}  // namespace

std::span<const OnnxAdapter> elementwise_adapters() { return kAdapters; }

}  // namespace lockstep::testing
