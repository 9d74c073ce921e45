// UsedParameters: which parameters have a gradient since the last synchronised backward, on this
// rank and, once exchanged, on how many ranks: the bitmap of section 3.2.3 of Li et al., PVLDB
// 13(12), 2020.
//
// The engine knows at a backward's first gradient which leaves it will reach (awaits_gradient), so
// the exchange goes out before the first bucket, and backward hides it.
#pragma once

#include "lockstep/distributed/comm/process_group.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace lockstep {

class UsedParameters {
 public:
  explicit UsedParameters(size_t count);
  ~UsedParameters() { forget(); }
  UsedParameters(const UsedParameters&) = delete;
  UsedParameters& operator=(const UsedParameters&) = delete;

  /// Whether a backward reaches parameter i on this rank. Adds up over backwards that do not
  /// synchronise, unless zero_grad() came between: what was reached before counts if it is `kept`.
  void update(size_t i, bool reached, bool kept);
  /// Starts to count the ranks. One small all-reduce; none for a group of one.
  void exchange(ProcessGroup& group);
  /// Ends the exchange; ranks_with() counts from then on.
  void wait();
  int ranks_with(size_t i) const;
  /// Keeps what the last exchange found, for a graph that does not change: no further exchange.
  void learn() { learned_.assign(begin(), begin() + here_.numel()); }
  void unlearn() { learned_.clear(); }
  bool learned() const { return !learned_.empty(); }
  /// Whether this rank's parameters are those that it had then.
  bool as_learned() const { return std::equal(learned_.begin(), learned_.end(), begin()); }
  /// i32 [count], 1 where this rank has a gradient.
  const Tensor& here() const { return here_; }
  /// Begins anew, after waiting for an exchange in flight, whatever becomes of it.
  void forget();

 private:
  const int32_t* begin() const { return here_.data<int32_t>(); }

  Tensor here_;                   // i32 [count], 1: this rank has a gradient
  Tensor ranks_;                  // i32 [count], their sum over the ranks
  std::vector<int32_t> learned_;  // here_ as it was at the exchange; empty: not learned
  WorkPtr work_;
};

}  // namespace lockstep
