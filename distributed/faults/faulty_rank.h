// FaultyRank: the faults of one rank, put where they belong. Each place does nothing where there is
// no fault for it.
#pragma once

#include "lockstep/distributed/data_parallel.h"
#include "lockstep/distributed/faults/fault.h"

#include <memory>
#include <vector>

namespace lockstep {

class FaultyRank {
 public:
  /// `group` must outlive this. Throws ArgumentError for faults that its ranks cannot have.
  FaultyRank(std::vector<Fault> faults, ProcessGroup& group);

  /// What DataParallel is to wrap in place of `module`: itself, or the same parameters and buffers
  /// listed in another order. This keeps it.
  Module& module(Module& module);
  /// What DdpOptions::reduction is to be in place of `inner`.
  BucketReduction reduction(BucketReduction inner) const;
  /// Once the module is wrapped. The result, which may be null, is to live as long as training.
  [[nodiscard]] std::unique_ptr<NoSync> after_wrapping(DataParallel& ddp) const;
  /// Whose samples this rank reads.
  int data_rank() const;

 private:
  bool has(FaultKind kind) const { return has_fault(faults_, kind, group_.rank()); }

  std::vector<Fault> faults_;
  ProcessGroup& group_;
  std::unique_ptr<Module> reordered_;
};

}  // namespace lockstep
