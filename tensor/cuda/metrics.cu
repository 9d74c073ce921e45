#include "lockstep/tensor/ops/metrics.h"

#include "lockstep/tensor/cuda/fold.h"
#include "lockstep/tensor/cuda/tables.h"

namespace lockstep::LOCKSTEP_GPU {
namespace {

struct Count {
  int64_t n;
  static __device__ Count none() { return {0}; }
  __device__ void merge(const Count& other) { n += other.n; }
};

/// correct[row] = whether fewer than k classes come before the row's target.
template <class T>
struct TargetInFirst {
  using Value = Count;
  using C = compute_t<T>;
  const T* logits;
  const int64_t* targets;
  int64_t classes;
  int64_t k;
  int32_t* correct;

  __device__ bool valid(int64_t row) const {
    const int64_t t = targets[row];
    if (t < 0 || t >= classes) return false;
    const C mine = static_cast<C>(logits[row * classes + t]);
    return mine == mine;
  }
  __device__ Count lane(int64_t row, int64_t first, int64_t step, int64_t end) const {
    Count above = Count::none();
    if (!valid(row)) return above;
    const int64_t t = targets[row];
    const T* x = logits + row * classes;
    const C mine = static_cast<C>(x[t]);
    for (int64_t c = first; c < end; c += step) {  // a NaN compares false and is above
      const C other = static_cast<C>(x[c]);
      above.n += c < t ? !(other < mine) : c > t && !(other <= mine);
    }
    return above;
  }
  __device__ void finish(int64_t row, const Count& above) const {
    correct[row] = valid(row) && above.n < k;
  }
};

struct CountTrue {
  using Value = Count;
  const int32_t* flags;
  int64_t* count;
  __device__ Count lane(int64_t, int64_t first, int64_t step, int64_t end) const {
    Count found = Count::none();
    for (int64_t i = first; i < end; i += step) found.n += flags[i];
    return found;
  }
  __device__ void finish(int64_t, const Count& found) const { *count = found.n; }
};

void count_correct(const Tensor& logits, const Tensor& targets, int64_t k, Tensor& count) {
  const int64_t rows = logits.dim(0);
  Tensor correct = Tensor::empty({rows}, DType::kI32, logits.device());
  int32_t* flags = correct.mutable_data<int32_t>();
  dispatch_floating(logits.dtype(), "count_correct", [&](auto zero) {
    using T = decltype(zero);
    reduce(rows, logits.dim(1), Neighbours::kTerms,
           TargetInFirst<T>{logits.data<T>(), targets.data<int64_t>(), logits.dim(1), k, flags},
           logits.device());
  });
  reduce(1, rows, Neighbours::kTerms, CountTrue{flags, count.mutable_data<int64_t>()},
         logits.device());
}

}  // namespace

const MetricsKernels kMetrics{.count_correct = count_correct};

}  // namespace lockstep::LOCKSTEP_GPU
