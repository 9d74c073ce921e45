// Shares: by how much the mean over one micro-batch's items is multiplied so that the gradients,
// averaged over the ranks, are those of the mean over all items of a step.
#pragma once

#include "lockstep/distributed/global_count.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace lockstep {

/// Of one step after the other. For a rank that trains by itself the step is its own.
class Shares {
 public:
  /// Forgets the step before.
  void clear() { weights_.clear(); }
  /// The number of items of this rank's next micro-batch.
  void add(int64_t weight) { weights_.push_back(static_cast<double>(weight)); }
  int64_t weight(int64_t micro_batch) const {
    return static_cast<int64_t>(weights_[static_cast<size_t>(micro_batch)]);
  }
  /// Collective where the ranks share a step, once all are added. The others' answer travels
  /// meanwhile.
  void begin(ProcessGroup& group, bool together);
  /// 0 for a micro-batch without items. Waits for the answer.
  double of(int64_t micro_batch);

 private:
  std::vector<double> weights_;
  double own_ = 0;
  int ranks_ = 1;
  std::optional<GlobalCount> all_;
};

}  // namespace lockstep
