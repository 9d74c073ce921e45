// Autocast: mixed precision without a change of the model. While one lives, the ops of autograd/ops
// on this thread that gain from it compute in bf16; parameters stay f32, and so do their gradients.
//
//   {
//     const Autocast mixed(DType::kBF16);
//     loss = cross_entropy(model.forward(x), labels);
//   }
//   loss.backward();   // in the types that forward chose, in the scope or out of it
//   optimizer.step();  // on f32 parameters; writes their bf16 shadows on the way (shadow.h)
//
// docs/mixed_precision.md says which op runs in which type and why.
#pragma once

#include "lockstep/tensor/dtype.h"

namespace lockstep {

/// The scope of a precision on this thread; other threads have their own. Scopes nest: an
/// Autocast(DType::kF32) inside keeps a part of a model in full precision.
class [[nodiscard]] Autocast {
 public:
  /// kBF16: mixed precision; kF32: each op in its operands' type. ArgumentError for another.
  explicit Autocast(DType dtype);
  ~Autocast();
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

  /// What holds on this thread now; kF32 outside of any scope.
  static DType current();

 private:
  DType before_;
};

}  // namespace lockstep
