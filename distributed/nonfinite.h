// NonfiniteWatch: gradients that are not finite are found on every rank alike, and it is known
// whose they were.
//
// The reducer divides each bucket by the number of ranks before it travels, and in the same pass
// over memory sees whether all of it is finite; that costs nothing. A rank whose bucket is not
// notes the first parameter, and marks it: the parameter's first element becomes NaN. NaN survives
// the sum, so after backward every rank sees the mark by looking at one element of each parameter,
// takes the same decision, and need not ask. Only then the ranks tell each other what they noted.
//
// On a device nobody waits for what a pass has seen: watched() leaves a flag for each bucket there,
// beside the sum, and found() reads all gradients once.
#pragma once

#include "lockstep/autograd/named_parameter.h"
#include "lockstep/distributed/comm/process_group.h"
#include "lockstep/distributed/reduce/grad_bucket.h"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lockstep {

struct NonfiniteGradient {
  std::string parameter;
  /// The first rank whose own gradient was not finite, and there `parameter` is the first in the
  /// order in which gradients travel; -1: every rank's own was, their sum (or what a communication
  /// hook made of it) is not.
  int rank = -1;

  bool operator==(const NonfiniteGradient&) const = default;
};

/// "the gradient of fc.weight, first on rank 1".
std::string describe(const NonfiniteGradient& gradient);

/// One rank's; all ranks of a group have one. Used by the thread that runs backward.
class NonfiniteWatch {
 public:
  /// For DdpOptions::nonfinite: notes and marks.
  void note(const GradBucket& bucket);
  /// `reduction`, which looks at each bucket first: around it something may spoil gradients after
  /// the reducer has looked, and on a device it does not. Reads the bucket once more.
  BucketReduction watched(BucketReduction reduction);

  /// After a synchronised backward; the same on every rank: whether a gradient carries the mark.
  /// `thorough`: whether any element is not finite, for a reduction that may make such of finite
  /// ones or lose the mark, and for a device; reads all gradients.
  bool found(std::span<const NamedParameter> parameters, bool thorough) const;
  /// Collective, on every rank once found() was true: what to say. Forgets what was noted.
  NonfiniteGradient first(std::span<const NamedParameter> parameters, ProcessGroup& group);

 private:
  /// What this rank's own gradients were, for a bucket on a device.
  struct Flagged {
    Tensor flat;  // the bucket's, to see whether it is still the same
    std::vector<std::string> names;
    Tensor finite;  // i32 [1], on the device
  };
  void flag(const GradBucket& bucket);
  /// Notes the first parameter that is not finite now of the buckets that were not finite before.
  void note_flagged(std::span<const NamedParameter> parameters);

  std::string noted_;             // the parameter; empty: nothing
  std::vector<Flagged> flagged_;  // by bucket
};

}  // namespace lockstep
