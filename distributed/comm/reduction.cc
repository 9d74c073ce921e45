#include "lockstep/distributed/comm/reduction.h"

#include "lockstep/tensor/f16_arrays.h"

#include <algorithm>
#include <array>
#include <span>

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

template <class T>
void load(const T* from, compute_t<T>* to, int64_t count) {
  if constexpr (std::is_same_v<T, f16>) {
    to_floats(from, to, count);
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = static_cast<compute_t<T>>(from[i]);
  }
}

template <class T>
void store(const compute_t<T>* from, T* to, int64_t count) {
  if constexpr (std::is_same_v<T, f16>) {
    from_floats(from, to, count);
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] = static_cast<T>(from[i]);
  }
}

template <class T, ReduceOp kOp>
void in_order(std::byte* out, std::span<const std::byte* const> inputs, int64_t count) {
  using A = compute_t<T>;
  constexpr int64_t kBlock = 256;  // so that the accumulators stay in the first cache
  A sum[kBlock];
  T* o = reinterpret_cast<T*>(out);
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t n = std::min(kBlock, count - begin);
    load(reinterpret_cast<const T*>(inputs[0]) + begin, sum, n);
    for (size_t r = 1; r < inputs.size(); ++r) {
      const T* x = reinterpret_cast<const T*>(inputs[r]) + begin;
      if constexpr (std::is_same_v<T, f16>) {
        float next[kBlock];
        load(x, next, n);
        for (int64_t i = 0; i < n; ++i) sum[i] = combine<kOp>(sum[i], next[i]);
      } else {
        for (int64_t i = 0; i < n; ++i) sum[i] = combine<kOp>(sum[i], static_cast<A>(x[i]));
      }
    }
    store(sum, o + begin, n);
  }
}

template <class T, ReduceOp kOp>
void pair(void* out, const void* a, const void* b, size_t count) {
  if constexpr (std::is_same_v<T, f16>) {
    const std::array inputs = {static_cast<const std::byte*>(a), static_cast<const std::byte*>(b)};
    in_order<T, kOp>(static_cast<std::byte*>(out), inputs, static_cast<int64_t>(count));
  } else {
    using A = compute_t<T>;
    T* o = static_cast<T*>(out);
    const T* x = static_cast<const T*>(a);
    const T* y = static_cast<const T*>(b);
    for (size_t i = 0; i < count; ++i) {
      o[i] = static_cast<T>(combine<kOp>(static_cast<A>(x[i]), static_cast<A>(y[i])));
    }
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
