#include "lockstep/tensor/ops/metrics.h"

#include "lockstep/tensor/cpu/cpu_backend.h"

#include <cmath>

namespace lockstep {
namespace {

void count_correct(const Tensor& logits, const Tensor& targets, int64_t k, Tensor& count) {
  dispatch_floating(logits.dtype(), "count_correct", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const T* x = logits.data<T>();
    const int64_t* target = targets.data<int64_t>();
    const int64_t classes = logits.dim(1);
    int64_t correct = 0;
    for (int64_t n = 0; n < logits.dim(0); ++n) {
      const int64_t t = target[n];
      if (t < 0 || t >= classes) continue;
      const T* row = x + n * classes;
      const C mine = static_cast<C>(row[t]);
      if (std::isnan(mine)) continue;
      int64_t above = 0;
      for (int64_t c = 0; c < t; ++c) above += !(static_cast<C>(row[c]) < mine);
      for (int64_t c = t + 1; c < classes; ++c) above += !(static_cast<C>(row[c]) <= mine);
      correct += above < k;
    }
    *count.mutable_data<int64_t>() = correct;
  });
}

}  // namespace

const MetricsKernels kCpuMetrics{.count_correct = count_correct};

}  // namespace lockstep
