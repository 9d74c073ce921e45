// Top-k sparsification with error feedback (Stich et al., "Sparsified SGD with Memory", NeurIPS
// 2018): of each parameter's gradient only the largest elements travel, as (index, value) pairs;
// what was not sent is added to the next step's gradient, so nothing is lost, it comes later.
#pragma once

#include "lockstep/distributed/reduce/comm_hook.h"
#include "lockstep/distributed/reduce/hooks/scratch.h"

#include <map>
#include <string>

namespace lockstep {

struct TopKHookOptions {
  double ratio = 0.01;  // of each parameter's elements, over 0 and at most 1; at least one element
};

/// Every rank chooses for itself (lower index first among equals) and adds the contributions of all
/// in the order of the ranks, so the replicas stay equal bit for bit. Residuals are f32 (f64 for
/// f64 parameters), one element for each of the parameters': as much memory as f32 gradients.
///
/// A rank hands over 8 bytes for each chosen element (12 in f64), but receives every other rank's:
/// with N ranks it pays below a ratio of about 1 / N. A single rank's gradient is made sparse too.
///
/// Host memory only. A parameter has less than 2^31 elements.
class TopKHook final : public CommHook {
 public:
  explicit TopKHook(const TopKHookOptions& options = {});
  int64_t reduce(const GradBucket& bucket, ProcessGroup& group) override;
  /// "residual.<parameter>".
  std::vector<NamedTensor> state() const override;
  void load_state(std::span<const NamedTensor> state) override;

  /// How many of `numel` elements travel.
  int64_t chosen_of(int64_t numel) const;

 private:
  Tensor& residual_of(const GradBucket::Param& param, DType dtype);
  /// T: of the gradients.
  template <class T>
  int64_t reduce_as(const GradBucket& bucket, ProcessGroup& group);

  TopKHookOptions options_;
  std::map<std::string, Tensor> residuals_;  // by parameter, in its shape
  Scratch indexes_, values_, all_indexes_, all_values_, sum_;
};

}  // namespace lockstep
