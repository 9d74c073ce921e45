#include "lockstep/autograd/ops/policy.h"

#include "lockstep/autograd/autocast.h"
#include "lockstep/autograd/ops/cast.h"
#include "lockstep/autograd/shadow.h"
#include "lockstep/tensor/ops/copy.h"

namespace lockstep::policy {
namespace {

/// Whether the scope of this thread turns an x of dtype `from` into another.
bool turns(const Variable& x, DType from) {
  return Autocast::current() == DType::kBF16 && x.defined() && x.dtype() == from;
}

}  // namespace

Tensor operand(const Variable& x) {
  if (!turns(x, DType::kF32)) return x.data();
  // A leaf without a gradient is a batch, or a frozen parameter, which keeps its shadow as well.
  return x.is_leaf() ? Shadow::of(x) : ops::cast(x.data(), DType::kBF16);
}

Variable narrow(const Variable& x) { return turns(x, DType::kF32) ? cast(x, DType::kBF16) : x; }

Variable widen(const Variable& x) { return turns(x, DType::kBF16) ? cast(x, DType::kF32) : x; }

Variable meet(const Variable& x, DType other) { return other == DType::kF32 ? widen(x) : x; }

}  // namespace lockstep::policy
