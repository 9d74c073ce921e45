// Captured<T>: a kernel's argument kept for a call that comes later on a stream. Tensors become
// host views of the same memory that do not keep it alive, as on a GPU: freed memory may be reused,
// in stream order, before the kernel has run.
#pragma once

#include "lockstep/tensor/dest.h"
#include "lockstep/tensor/ops/norm.h"
#include "lockstep/tests/support/sim_device.h"

#include <span>
#include <type_traits>
#include <vector>

namespace lockstep::testing {

/// A value without tensors in it: copied.
template <class T>
class Captured {
 public:
  // Handles, references and pointers would be used after their time: such a type needs a Captured
  // of its own.
  static_assert(std::is_trivially_copyable_v<T> && std::is_copy_assignable_v<T> &&
                !std::is_pointer_v<T>);
  explicit Captured(const T& value) : value_(value) {}
  T& value() { return value_; }

 private:
  T value_;
};

template <>
class Captured<Tensor> {
 public:
  explicit Captured(const Tensor& x) : view_(host_view(x)) {}
  /// An output: changed from now on, as far as the host can tell.
  explicit Captured(Tensor& x) : view_(host_view(x)) {
    if (x.defined()) x.mutable_raw();
  }
  Tensor& value() { return view_; }

 private:
  Tensor view_;
};

template <>
class Captured<Dest> {
 public:
  explicit Captured(const Dest& dest) : view_{host_view(dest.out), dest.accumulate} {
    Tensor out = dest.out;
    if (out.defined()) out.mutable_raw();
  }
  Dest& value() { return view_; }

 private:
  Dest view_;
};

template <class T>
class Captured<std::span<const T>> {
 public:
  explicit Captured(std::span<const T> values) : values_(values.begin(), values.end()) {
    static_assert(std::is_arithmetic_v<T>);
  }
  std::span<const T> value() const { return values_; }

 private:
  std::vector<T> values_;
};

template <>
class Captured<BatchNormInputs> {
 public:
  explicit Captured(const BatchNormInputs& in)
      : x_(host_view(in.x)), mean_(host_view(in.mean)), invstd_(host_view(in.invstd)) {}
  BatchNormInputs value() const { return {x_, mean_, invstd_}; }

 private:
  Tensor x_, mean_, invstd_;
};

}  // namespace lockstep::testing
