#include "lockstep/tests/support/gradcheck.h"

#include "lockstep/base/str.h"
#include "lockstep/tensor/ops/copy.h"
#include "lockstep/tensor/random.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace lockstep::testing {
namespace {

double weighted_sum(const Variable& y, const Tensor& weights) {
  const double* a = y.data().data<double>();
  const double* w = weights.data<double>();
  double sum = 0;
  for (int64_t i = 0; i < weights.numel(); ++i) sum += a[i] * w[i];
  return sum;
}

}  // namespace

std::string gradcheck(const Function& fn, const std::vector<Tensor>& inputs,
                      GradCheckOptions options) {
  std::vector<Variable> leaves;
  for (const Tensor& input : inputs) leaves.emplace_back(ops::clone(input), true);
  const Tensor weights = random_tensor(fn(leaves).shape(), options.seed + 1000, 0.5, 1.5);
  fn(leaves).backward(weights);
  std::vector<std::vector<double>> once;
  for (const Variable& leaf : leaves) {
    if (!leaf.grad()) return str("input ", once.size(), " got no gradient");
    once.push_back(leaf.grad()->to_vector<double>());
  }
  fn(leaves).backward(weights);
  for (size_t k = 0; k < leaves.size(); ++k) {
    const auto twice = leaves[k].grad()->to_vector<double>();
    for (size_t i = 0; i < twice.size(); ++i) {
      if (std::abs(twice[i] - 2 * once[k][i]) > 1e-12 * (1 + std::abs(twice[i]))) {
        return str("input ", k, " element ", i, ": one backward gives ", once[k][i], ", two give ",
                   twice[i]);
      }
    }
  }
  for (size_t k = 0; k < leaves.size(); ++k) {
    double* x = leaves[k].mutable_data().mutable_data<double>();
    std::vector<double> numeric(once[k].size());
    double scale = 1;
    for (size_t i = 0; i < numeric.size(); ++i) {
      const NoGrad no_grad;
      const double at = x[i];
      x[i] = at + options.step;
      const double above = weighted_sum(fn(leaves), weights);
      x[i] = at - options.step;
      const double below = weighted_sum(fn(leaves), weights);
      x[i] = at;
      numeric[i] = (above - below) / (2 * options.step);
      scale = std::max(scale, std::abs(numeric[i]));
    }
    for (size_t i = 0; i < numeric.size(); ++i) {
      if (!(std::abs(numeric[i] - once[k][i]) <= options.tolerance * scale)) {
        return str("input ", k, " element ", i, ": backward gives ", once[k][i],
                   ", central differences ", numeric[i]);
      }
    }
  }
  return "";
}

Tensor random_tensor(const Shape& shape, uint64_t seed, double low, double high, DType dtype) {
  Tensor values = Tensor::empty(shape, DType::kF64);
  double* x = values.mutable_data<double>();
  const PhiloxRange range = Generator(seed).take(shape.numel());
  for (int64_t i = 0; i < shape.numel(); ++i)
    x[i] = low + (high - low) * static_cast<double>(range.uniform(i));
  return ops::cast(values, dtype);
}

double relative_difference(const Tensor& a, const Tensor& b) {
  constexpr double kInfinite = std::numeric_limits<double>::infinity();
  if (a.shape() != b.shape()) return kInfinite;
  const auto x = ops::cast(a, DType::kF64).to_vector<double>();
  const auto y = ops::cast(b, DType::kF64).to_vector<double>();
  double difference = 0;
  double scale = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    if (x[i] != y[i]) {  // a NaN always does
      if (!std::isfinite(x[i]) || !std::isfinite(y[i])) return kInfinite;
      difference = std::max(difference, std::abs(x[i] - y[i]));
    }
    if (std::isfinite(y[i])) scale = std::max(scale, std::abs(y[i]));
  }
  return difference == 0 ? 0 : difference / scale;
}

}  // namespace lockstep::testing
