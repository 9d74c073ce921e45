#include "lockstep/tensor/ops/copy.h"

#include "lockstep/tensor/cpu/cpu_backend.h"
#include "lockstep/tensor/cpu/parallel.h"
#include "lockstep/tensor/f16_arrays.h"

#include <cstring>

namespace lockstep {
namespace {

using cpu::kGrain;
using cpu::parallel_for;

template <class From, class To>
void convert(const From* x, To* y, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    y[i] = static_cast<To>(static_cast<compute_t<To>>(static_cast<compute_t<From>>(x[i])));
  }
}

/// One of the two is f16; by way of floats in the first cache.
template <class From, class To>
void convert_f16(const From* x, To* y, int64_t count) {
  constexpr int64_t kBlock = 512;
  float floats[kBlock];
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t n = std::min(kBlock, count - begin);
    if constexpr (std::is_same_v<From, f16>) {
      to_floats(x + begin, floats, n);
      convert(floats, y + begin, n);
    } else {
      convert(x + begin, floats, n);
      from_floats(floats, y + begin, n);
    }
  }
}

void fill(double value, Tensor& out) {
  dispatch_any(out.dtype(), [&](auto zero) {
    using T = decltype(zero);
    const T v = static_cast<T>(static_cast<compute_t<T>>(value));
    T* y = out.mutable_data<T>();
    parallel_for(out.numel(), kGrain,
                 [=](int64_t begin, int64_t end) { std::fill(y + begin, y + end, v); });
  });
}

void copy(const Tensor& in, Tensor& out) {
  dispatch_any(in.dtype(), [&](auto from) {
    using From = decltype(from);
    const From* x = in.data<From>();
    dispatch_any(out.dtype(), [&](auto to) {
      using To = decltype(to);
      To* y = out.mutable_data<To>();
      parallel_for(in.numel(), kGrain, [=](int64_t begin, int64_t end) {
        if constexpr (std::is_same_v<From, To>) {
          std::memcpy(y + begin, x + begin, static_cast<size_t>(end - begin) * sizeof(To));
        } else if constexpr (std::is_same_v<From, f16> || std::is_same_v<To, f16>) {
          convert_f16(x + begin, y + begin, end - begin);
        } else {
          convert(x + begin, y + begin, end - begin);
        }
      });
    });
  });
}

void add_scaled(const Tensor& in, double alpha, Tensor& out) {
  dispatch_floating(in.dtype(), "add_scaled", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const T* x = in.data<T>();
    T* y = out.mutable_data<T>();
    parallel_for(in.numel(), kGrain, [=, a = static_cast<C>(alpha)](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        y[i] = T(static_cast<C>(y[i]) + a * static_cast<C>(x[i]));
    });
  });
}

void scale(double factor, Tensor& inout) {
  dispatch_floating(inout.dtype(), "scale", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    T* x = inout.mutable_data<T>();
    parallel_for(inout.numel(), kGrain,
                 [=, f = static_cast<C>(factor)](int64_t begin, int64_t end) {
                   for (int64_t i = begin; i < end; ++i) x[i] = T(static_cast<C>(x[i]) * f);
                 });
  });
}

}  // namespace

const CopyKernels kCpuCopy{.fill = fill, .copy = copy, .add_scaled = add_scaled, .scale = scale};

}  // namespace lockstep
