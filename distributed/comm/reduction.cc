#include "lockstep/distributed/comm/reduction.h"

#include <algorithm>

namespace lockstep::comm {
namespace {

template <ReduceOp kOp, class A>
A combine(A a, A b) {
  if constexpr (kOp == ReduceOp::kSum) {
    return static_cast<A>(a + b);
  } else if constexpr (kOp == ReduceOp::kMax) {
    return a < b ? b : a;
  } else {
    return b < a ? b : a;
  }
}

template <class T, ReduceOp kOp>
void pair(void* out, const void* a, const void* b, size_t count) {
  using A = compute_t<T>;
  T* o = static_cast<T*>(out);
  const T* x = static_cast<const T*>(a);
  const T* y = static_cast<const T*>(b);
  for (size_t i = 0; i < count; ++i) {
    o[i] = static_cast<T>(combine<kOp>(static_cast<A>(x[i]), static_cast<A>(y[i])));
  }
}

template <class T, ReduceOp kOp>
void in_order(std::byte* out, const std::vector<const std::byte*>& inputs, int64_t count) {
  using A = compute_t<T>;
  constexpr int64_t kBlock = 256;  // so that the accumulators stay in the first cache
  A sum[kBlock];
  T* o = reinterpret_cast<T*>(out);
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t n = std::min(kBlock, count - begin);
    const T* first = reinterpret_cast<const T*>(inputs[0]) + begin;
    for (int64_t i = 0; i < n; ++i) sum[i] = static_cast<A>(first[i]);
    for (size_t r = 1; r < inputs.size(); ++r) {
      const T* x = reinterpret_cast<const T*>(inputs[r]) + begin;
      for (int64_t i = 0; i < n; ++i) sum[i] = combine<kOp>(sum[i], static_cast<A>(x[i]));
    }
    for (int64_t i = 0; i < n; ++i) o[begin + i] = static_cast<T>(sum[i]);
  }
}

/// Calls fn with the operation as a compile-time constant.
template <class Fn>
decltype(auto) dispatch_reduce(ReduceOp op, Fn&& fn) {
  switch (op) {
    case ReduceOp::kSum:
      return fn.template operator()<ReduceOp::kSum>();
    case ReduceOp::kMax:
      return fn.template operator()<ReduceOp::kMax>();
    case ReduceOp::kMin:
      return fn.template operator()<ReduceOp::kMin>();
  }
  throw ArgumentError("ProcessGroup: unknown ReduceOp");
}

}  // namespace

void reduce_in_order(std::byte* out, const std::vector<const std::byte*>& inputs, int64_t count,
                     DType dtype, ReduceOp op) {
  dispatch_any(dtype, [&](auto zero) {
    using T = decltype(zero);
    dispatch_reduce(op, [&]<ReduceOp kOp>() { in_order<T, kOp>(out, inputs, count); });
  });
}

PairReduction pair_reduction(DType dtype, ReduceOp op) {
  return dispatch_any(dtype, [&](auto zero) -> PairReduction {
    using T = decltype(zero);
    return dispatch_reduce(op, []<ReduceOp kOp>() -> PairReduction { return &pair<T, kOp>; });
  });
}

}  // namespace lockstep::comm
