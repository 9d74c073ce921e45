#include "lockstep/train/verify/difference.h"

#include "lockstep/base/error.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace lockstep {
namespace {

constexpr double kSmallest = 1e-3;  // of the model's largest value

struct Extremes {
  double apart = 0;
  double largest = 0;
};

template <class T>
Extremes extremes(const Tensor& a, const Tensor& b) {
  const T *x = a.data<T>(), *y = b.data<T>();
  Extremes e;
  for (int64_t i = 0; i < b.numel(); ++i) {
    const double apart = std::abs(static_cast<double>(x[i]) - static_cast<double>(y[i]));
    // A comparison with NaN is false, so this way round.
    if (!(apart <= e.apart)) e.apart = apart;
    if (std::isnan(e.apart)) return {std::numeric_limits<double>::infinity(), 0};
    e.largest = std::max(e.largest, std::abs(static_cast<double>(y[i])));
  }
  return e;
}

Extremes extremes(const NamedParameter& a, const NamedParameter& b) {
  const Tensor &x = a.parameter.data(), &y = b.parameter.data();
  check(x.shape() == y.shape() && x.dtype() == y.dtype(), "difference: ", a.name, " is ",
        name_of(x.dtype()), " ", x.shape(), " in one model and ", name_of(y.dtype()), " ",
        y.shape(), " in the other");
  return y.dtype() == DType::kF64 ? extremes<double>(x, y) : extremes<float>(x, y);
}

}  // namespace

Difference difference(std::span<const NamedParameter> a, std::span<const NamedParameter> b,
                      double allowed) {
  check(a.size() == b.size(), "difference: one model has ", a.size(), " parameters, the other ",
        b.size());
  std::vector<Extremes> all;
  double scale = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    all.push_back(extremes(a[i], b[i]));
    scale = std::max(scale, all.back().largest);
  }
  Difference d;
  for (size_t i = 0; i < a.size(); ++i) {
    if (all[i].apart == 0) continue;
    const double relative = all[i].apart / std::max(all[i].largest, kSmallest * scale);
    if (relative > d.largest) {
      d.largest = relative;
      d.where = a[i].name;
    }
    if (d.first.empty() && relative > allowed) d.first = a[i].name;
  }
  return d;
}

}  // namespace lockstep
