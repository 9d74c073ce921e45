// Gradients travel as 16-bit floats: half the bytes of f32, a quarter of f64's.
//
// bf16 has the range of f32 and 8 bits of precision. fp16 has 11 bits, but ends at 65,504 and loses
// what is below 6e-8. The shares are rounded, summed in the 16-bit type (how often a sum is rounded
// is the group's business), and the sum is cast back.
#pragma once

#include "lockstep/distributed/reduce/comm_hook.h"
#include "lockstep/distributed/reduce/hooks/scratch.h"

namespace lockstep {

struct HalfHookOptions {
  DType dtype = DType::kBF16;
  /// A sum that is not finite throws Error, the same one on every rank, with the
  /// parameter's name, instead of going into the weights. A loss scaler wants to see the infinity:
  /// false. Host memory only.
  bool refuse_overflow = false;
};

/// Buckets of f32 and f64; those of bf16 are summed as they are.
class HalfHook final : public CommHook {
 public:
  explicit HalfHook(const HalfHookOptions& options);
  int64_t reduce(const GradBucket& bucket, ProcessGroup& group) override;

 private:
  void require_finite(const GradBucket& bucket, ProcessGroup& group) const;

  HalfHookOptions options_;
  const char* name_;
  Scratch scratch_;
};

}  // namespace lockstep
