#include "lockstep/distributed/reduce/hooks/half_hook.h"

#include "lockstep/tensor/ops/copy.h"

#include <cmath>
#include <limits>

namespace lockstep {
namespace {

template <class T>
bool all_finite(const Tensor& x) {
  using C = compute_t<T>;
  const T* values = x.data<T>();
  bool beyond = false;
  for (int64_t i = 0; i < x.numel(); ++i) {
    beyond |= !(std::abs(static_cast<C>(values[i])) <= std::numeric_limits<C>::max());
  }
  return !beyond;
}

}  // namespace

HalfHook::HalfHook(const HalfHookOptions& options)
    : options_(options), name_(options.dtype == DType::kF16 ? "fp16" : "bf16") {
  check(options.dtype == DType::kF16 || options.dtype == DType::kBF16,
        "HalfHook: wanted f16 or bf16, got ", name_of(options.dtype));
}

int64_t HalfHook::reduce(const GradBucket& bucket, ProcessGroup& group) {
  Tensor flat = bucket.flat;
  check(is_computable(flat.dtype()), "comm hook ", name_,
        ": wanted a bucket of f32, f64 or bf16, got ", name_of(flat.dtype()));
  if (size_of(flat.dtype()) <= size_of(options_.dtype)) {
    group.all_reduce(flat, ReduceOp::kSum)->wait();
    return static_cast<int64_t>(flat.nbytes());
  }
  Tensor sent = scratch_.get(flat.numel(), options_.dtype, flat.device());
  ops::copy(flat, sent);
  group.all_reduce(sent, ReduceOp::kSum)->wait();
  ops::copy(sent, flat);
  if (options_.refuse_overflow) require_finite(bucket, group);
  return static_cast<int64_t>(sent.nbytes());
}

void HalfHook::require_finite(const GradBucket& bucket, ProcessGroup& group) const {
  check(bucket.flat.device().is_cpu(), "comm hook ", name_,
        ": overflow=error looks at host memory, but the gradients are on ",
        to_string(bucket.flat.device()), "; use overflow=inf");
  for (const GradBucket::Param& param : bucket.params) {
    const bool finite = dispatch_floating(param.grad.dtype(), "comm hook", [&](auto zero) {
      return all_finite<decltype(zero)>(param.grad);
    });
    if (finite) continue;
    group.barrier()->wait();  // all ranks have found the same: none is cut off before it can say so
    throw Error(str("comm hook ", name_, ": the gradient of ", param.name,
                    " is not finite in step ", bucket.step,
                    " (f16 ends at 65,504); use bf16, which has f32's range, or overflow=inf to "
                    "let infinities through"));
  }
}

}  // namespace lockstep
