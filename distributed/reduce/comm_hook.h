// CommHook: how a bucket of gradients is summed over the ranks, when it is not a plain all-reduce
// (section 6.2.3 of Li et al., PVLDB 13(12), 2020). docs/writing_a_comm_hook.md shows a whole one.
#pragma once

#include "lockstep/distributed/reduce/grad_bucket.h"
#include "lockstep/tensor/named_tensor.h"

#include <cstdint>
#include <span>
#include <vector>

namespace lockstep {

/// One object serves one rank of one group. It is called by one thread at a time, for the buckets
/// of a step in the plan's order, the same on every rank.
class CommHook {
 public:
  virtual ~CommHook() = default;

  /// Replaces bucket.flat, this rank's share, by the sum of the shares of all ranks, or by what
  /// stands for it: the same bits on every rank, or the replicas drift apart. Plain blocking code:
  /// it may chain collectives of `group`, and waits for them. Padding stays zero. Returns the bytes
  /// that this rank handed to the group. What it throws ends the group on every rank.
  virtual int64_t reduce(const GradBucket& bucket, ProcessGroup& group) = 0;

  /// What this rank keeps from step to step, under names made of the parameters' (buckets are
  /// planned anew). The hook's memory itself: write it out or copy it before the next step. Not
  /// while a bucket is in flight.
  virtual std::vector<NamedTensor> state() const { return {}; }
  /// Takes over what state() gave, bit for bit. Throws ArgumentError for what it did not give; then
  /// nothing was changed.
  virtual void load_state(std::span<const NamedTensor> state) {
    check(state.empty(), "CommHook::load_state: this hook keeps no state, but was given ",
          state.empty() ? "" : state.front().name);
  }

  CommHook() = default;
  CommHook(const CommHook&) = delete;
  CommHook& operator=(const CommHook&) = delete;
};

}  // namespace lockstep
