#include "lockstep/train/meter.h"

#include <algorithm>

namespace lockstep {

int64_t count_correct(const Tensor& logits, const Tensor& targets) {
  check(logits.ndim() == 2 && targets.ndim() == 1 && logits.dim(0) == targets.dim(0),
        "count_correct: wanted logits [N, C] and targets [N], got ", logits.shape(), " and ",
        targets.shape());
  const int64_t n = logits.dim(0), classes = logits.dim(1);
  const int64_t* wanted = targets.data<int64_t>();
  return dispatch_floating(logits.dtype(), "count_correct", [&](auto zero) {
    using T = decltype(zero);
    const T* row = logits.data<T>();
    int64_t correct = 0;
    for (int64_t i = 0; i < n; ++i, row += classes) {
      int64_t best = 0;
      for (int64_t c = 1; c < classes; ++c) {
        if (static_cast<compute_t<T>>(row[c]) > static_cast<compute_t<T>>(row[best])) best = c;
      }
      correct += best == wanted[i];
    }
    return correct;
  });
}

void Meter::add(double mean_loss, int64_t correct, int64_t counted) {
  sums_[0] += mean_loss * static_cast<double>(counted);
  sums_[1] += static_cast<double>(correct);
  sums_[2] += static_cast<double>(counted);
}

Meter::Result Meter::reduce(ProcessGroup& group) const {
  Tensor sums = Tensor::empty(Shape{3}, DType::kF64);
  std::copy(sums_.begin(), sums_.end(), sums.mutable_data<double>());
  group.all_reduce(sums)->wait();
  const double* all = sums.data<double>();
  return {all[0] / all[2], all[1] / all[2], static_cast<int64_t>(all[2])};
}

}  // namespace lockstep
