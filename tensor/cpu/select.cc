#include "lockstep/tensor/ops/select.h"

#include "lockstep/tensor/cpu/cpu_backend.h"
#include "lockstep/tensor/cpu/strided.h"

#include <functional>

namespace lockstep {
namespace {

template <class T, class Fn>
void compare_with(const Tensor& a, const Tensor& b, Tensor& mask, Fn fn) {
  using C = compute_t<T>;
  const T* pa = a.data<T>();
  const T* pb = b.data<T>();
  uint8_t* py = mask.mutable_data<uint8_t>();
  const auto loop = cpu::broadcast_loop<3>(mask.shape(), {a.shape(), b.shape(), mask.shape()});
  cpu::with_strides(loop.inner_stride(0), loop.inner_stride(1), [&]<int A, int B>() {
    cpu::for_each_row(loop, [=](const std::array<int64_t, 3>& at, int64_t count) {
      const T* u = pa + at[0];
      const T* v = pb + at[1];
      uint8_t* out = py + at[2];
      for (int64_t i = 0; i < count; ++i)
        out[i] = fn(static_cast<C>(u[i * A]), static_cast<C>(v[i * B])) ? 1 : 0;
    });
  });
}

void compare(CompareOp op, const Tensor& a, const Tensor& b, Tensor& mask) {
  dispatch_any(a.dtype(), [&](auto zero) {
    using T = decltype(zero);
    switch (op) {
      case CompareOp::kGt:
        return compare_with<T>(a, b, mask, std::greater<>());
      case CompareOp::kLt:
        return compare_with<T>(a, b, mask, std::less<>());
      case CompareOp::kGe:
        return compare_with<T>(a, b, mask, std::greater_equal<>());
      case CompareOp::kLe:
        return compare_with<T>(a, b, mask, std::less_equal<>());
      case CompareOp::kEq:
        return compare_with<T>(a, b, mask, std::equal_to<>());
      case CompareOp::kNe:
        return compare_with<T>(a, b, mask, std::not_equal_to<>());
    }
  });
}

void where(const Tensor& mask, const Tensor& a, const Tensor& b, Tensor& y) {
  dispatch_floating(a.dtype(), "where", [&](auto zero) {
    using T = decltype(zero);
    const uint8_t* pm = mask.data<uint8_t>();
    const T* pa = a.data<T>();
    const T* pb = b.data<T>();
    T* py = y.mutable_data<T>();
    const auto loop =
        cpu::broadcast_loop<4>(y.shape(), {mask.shape(), a.shape(), b.shape(), y.shape()});
    const int64_t sm = loop.inner_stride(0), sa = loop.inner_stride(1), sb = loop.inner_stride(2);
    cpu::for_each_row(loop, [=](const std::array<int64_t, 4>& at, int64_t count) {
      const uint8_t* m = pm + at[0];
      const T* u = pa + at[1];
      const T* v = pb + at[2];
      T* out = py + at[3];
      if (sm == 1 && sa == 1 && sb == 1) {  // the common case, as a vector loop
        for (int64_t i = 0; i < count; ++i) out[i] = m[i] != 0 ? u[i] : v[i];
      } else {
        for (int64_t i = 0; i < count; ++i) out[i] = m[i * sm] != 0 ? u[i * sa] : v[i * sb];
      }
    });
  });
}

void keep_where(const Tensor& x, const Tensor& mask, bool value, const Dest& y) {
  dispatch_floating(x.dtype(), "where_backward", [&](auto zero) {
    using T = decltype(zero);
    using C = compute_t<T>;
    const T* in = x.data<T>();
    const uint8_t* chosen = mask.data<uint8_t>();
    Tensor target = y.out;
    T* to = target.mutable_data<T>();
    const bool accumulate = y.accumulate;
    const auto loop = cpu::broadcast_loop<2>(x.shape(), {x.shape(), mask.shape()});
    const int64_t step = loop.inner_stride(1);
    cpu::for_each_row(loop, [=](const std::array<int64_t, 2>& at, int64_t count) {
      const uint8_t* m = chosen + at[1];
      for (int64_t i = 0; i < count; ++i) {
        const int64_t k = at[0] + i;
        const C kept = (m[i * step] != 0) == value ? static_cast<C>(in[k]) : C(0);
        to[k] = T(accumulate ? static_cast<C>(to[k]) + kept : kept);
      }
    });
  });
}

}  // namespace

const SelectKernels kCpuSelect{.compare = compare, .where = where, .keep_where = keep_where};

}  // namespace lockstep
