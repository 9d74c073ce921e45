#include "lockstep/train/shares.h"

#include <numeric>

namespace lockstep {

void Shares::begin(ProcessGroup& group, bool together) {
  own_ = std::accumulate(weights_.begin(), weights_.end(), 0.0);
  ranks_ = together ? group.size() : 1;
  all_.reset();
  if (together) all_.emplace(group, own_);
}

double Shares::of(int64_t micro_batch) {
  const double all = all_ ? all_->get() : own_;
  const double weight = weights_[static_cast<size_t>(micro_batch)];
  return weight == 0 ? 0 : weight * ranks_ / all;
}

}  // namespace lockstep
