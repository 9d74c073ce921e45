#include "lockstep/tensor/ops/metrics.h"

#include "lockstep/tensor/backend.h"
#include "lockstep/tensor/ops/check_device.h"
#include "lockstep/tensor/ops/copy.h"

namespace lockstep::ops {

Tensor correct_count(const Tensor& logits, const Tensor& targets, int64_t k) {
  check(logits.ndim() == 2 && is_computable(logits.dtype()),
        "count_correct: wanted logits [N, C] in f32, f64 or bf16, got ", name_of(logits.dtype()),
        " ", logits.shape());
  check(targets.shape() == Shape{logits.dim(0)} && targets.dtype() == DType::kI64,
        "count_correct: wanted targets i64 [", logits.dim(0), "], got ", name_of(targets.dtype()),
        " ", targets.shape());
  check(k >= 1, "count_correct: wanted k >= 1, got ", k);
  check_device("count_correct", logits, targets, "the targets");
  Tensor count = Tensor::empty({}, DType::kI64, logits.device());
  backend(logits.device()).metrics.count_correct(logits, targets, k, count);
  return count;
}

int64_t count_correct(const Tensor& logits, const Tensor& targets, int64_t k) {
  return *to_device(correct_count(logits, targets, k), Device::cpu()).data<int64_t>();
}

}  // namespace lockstep::ops
