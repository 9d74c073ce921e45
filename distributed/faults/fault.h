// Faults that can be switched on to see what they do to data-parallel training and what notices
// them: docs/what_goes_wrong.md walks through all of them.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

enum class FaultKind {
  kArrivalOrder,
  kCorrupt,
  kDie,
  kDifferentOrder,
  kForgetWait,
  kHalfReducedTied,
  kNan,
  kNoScale,
  kNoSync,
  kSameData,
  kScaleTwice,
  kSeed,
  kSkip,
  kSlow,
};

struct Fault {
  FaultKind kind = FaultKind::kCorrupt;
  int rank = 1;  // -1: all of them
  /// Counted from 1, as the progress line does; 0: every step.
  int64_t step = 0;
  std::chrono::milliseconds delay{200};  // kSlow

  bool on_rank(int r) const { return rank < 0 || rank == r; }
  /// `steps_before`: as in GradBucket::step.
  bool in_step(int64_t steps_before) const { return step == 0 || step == steps_before + 1; }
};

/// From "NAME" or "NAME:key=value,...": "corrupt:rank=1,step=30". Throws ArgumentError that lists
/// what there is for an unknown name, key or value.
Fault parse_fault(const std::string& text);

/// In words: "one bit of a reduced gradient is flipped (rank 1, step 30)".
std::string describe(const Fault& fault);

/// "arrival-order, corrupt, ...".
std::string fault_names();

/// Throws ArgumentError unless `world` ranks are enough for it.
void check_fault(const Fault& fault, int world);

/// Whether one of `faults` is of this kind and concerns rank `rank`.
bool has_fault(const std::vector<Fault>& faults, FaultKind kind, int rank);

}  // namespace lockstep
