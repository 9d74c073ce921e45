// Counting what a classifier gets right.
#pragma once

#include "lockstep/tensor/tensor.h"

#include <cstdint>

namespace lockstep {

struct MetricsKernels {
  /// `count` is an i64 scalar.
  void (&count_correct)(const Tensor& logits, const Tensor& targets, int64_t k, Tensor& count);
};

namespace ops {

/// How many rows of logits [N, C] have their target (i64 [N]) among their k largest; k = 1 is plain
/// accuracy. Of equal logits the lower class comes first, a NaN is above every other number and
/// never correct. Targets outside [0, C) are never correct.
int64_t count_correct(const Tensor& logits, const Tensor& targets, int64_t k = 1);
/// The same as an i64 scalar where the logits are: nobody waits for it.
Tensor correct_count(const Tensor& logits, const Tensor& targets, int64_t k = 1);

}  // namespace ops
}  // namespace lockstep
