// Meter: loss and accuracy over what was seen in an interval: images, masked tokens. Each rank adds
// up its own; the ranks are put together only when somebody looks, so a step costs no communication
// for it.
#pragma once

#include "lockstep/distributed/comm/process_group.h"
#include "lockstep/tensor/tensor.h"

#include <array>
#include <cstdint>

namespace lockstep {

/// How many rows of `logits` [N, C] (f32, f64 or bf16) have their largest entry, the first among
/// equals, at `targets` (i64 [N]). Host tensors.
int64_t count_correct(const Tensor& logits, const Tensor& targets);

class Meter {
 public:
  /// `mean_loss` over `counted` items, of which `correct` were right.
  void add(double mean_loss, int64_t correct, int64_t counted);

  /// Means over all items of all ranks; NaN when there were none. Collective.
  struct Result {
    double loss = 0;
    double accuracy = 0;
    int64_t counted = 0;
  };
  Result reduce(ProcessGroup& group) const;

  void reset() { sums_ = {}; }
  /// This rank's sums: loss, correct, counted.
  const std::array<double, 3>& sums() const { return sums_; }
  void set_sums(const std::array<double, 3>& sums) { sums_ = sums; }

 private:
  std::array<double, 3> sums_{};
};

}  // namespace lockstep
