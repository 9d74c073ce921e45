// The bf16 shadow of an f32 leaf: its value rounded, kept beside it from one use to the next. An op
// under Autocast asks for it; the optimizer writes it in the pass that moves the parameter, so that
// a training step never converts weights for themselves.
//
// A shadow is fresh as long as its leaf's memory is not written: Tensor::version() tells. Whoever
// else changes a parameter (loading, broadcasting, an average swapped in) need not know of shadows;
// the next use converts anew.
#pragma once

#include "lockstep/autograd/variable.h"

namespace lockstep {

/// Functions on a leaf's shadow. As all of a variable, for one thread at a time; that includes
/// forward under Autocast, which may write it.
struct Shadow {
  /// `leaf` (f32) in bf16, converted now if there is no fresh shadow. The memory is not written
  /// again but by an optimizer's step.
  static const Tensor& of(const Variable& leaf);
  /// Whether an op has ever asked for one.
  static bool used(const Variable& leaf);
  static bool fresh(const Variable& leaf);
  /// Declares `values` (bf16, the leaf's shape) to be the leaf's value of now, rounded.
  static void set(const Variable& leaf, Tensor values);
  /// Declares the shadow to be fresh: the leaf's memory was marked as changed, its value is not.
  static void renew(const Variable& leaf);
  /// Conversions that of() had to make on this thread; a warm training step makes none.
  static uint64_t conversions();
};

}  // namespace lockstep
