// The element types of tensors, and bfloat16, which C++20 lacks (f16.h has the other half).
#pragma once

#include "lockstep/base/error.h"
#include "lockstep/tensor/f16.h"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace lockstep {

/// kF16 is for files and for what goes over a wire: it is copied, cast and reduced by collectives,
/// and every operation that computes refuses it.
enum class DType : uint8_t { kF32, kF64, kBF16, kI64, kI32, kU8, kF16 };

/// The upper 16 bits of a float. Conversion from float rounds to nearest even; NaN stays NaN.
struct bf16 {
  uint16_t bits = 0;

  // constexpr so that device code can call them too.
  bf16() = default;
  constexpr explicit bf16(float value) {
    const uint32_t u = std::bit_cast<uint32_t>(value);
    if ((u & 0x7fffffffu) > 0x7f800000u) {
      bits = static_cast<uint16_t>((u >> 16) | 0x40u);
    } else {
      bits = static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
    }
  }
  constexpr explicit operator float() const {
    return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
  }
};

/// Bytes of one element.
constexpr size_t size_of(DType dtype) {
  switch (dtype) {
    case DType::kF64:
    case DType::kI64:
      return 8;
    case DType::kF32:
    case DType::kI32:
      return 4;
    case DType::kBF16:
    case DType::kF16:
      return 2;
    case DType::kU8:
      return 1;
  }
  return 0;
}

/// Whether operations compute in it: f32, f64, bf16.
constexpr bool is_computable(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF64 || dtype == DType::kBF16;
}

/// Whether its elements are fractions, which may be cast to each other: f32, f64, bf16, f16.
constexpr bool is_floating(DType dtype) { return is_computable(dtype) || dtype == DType::kF16; }

/// "f32", "f64", "bf16", "i64", "i32", "u8", "f16".
const char* name_of(DType dtype);

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kF32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::kF64;
};
template <>
struct DTypeOf<bf16> {
  static constexpr DType value = DType::kBF16;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::kI64;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::kI32;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::kU8;
};
template <>
struct DTypeOf<f16> {
  static constexpr DType value = DType::kF16;
};
template <class T>
inline constexpr DType dtype_of = DTypeOf<T>::value;

/// Calls `fn(T{})` with the element type of a `dtype` that operations compute in; throws
/// ArgumentError naming `op` for the others.
template <class Fn>
decltype(auto) dispatch_floating(DType dtype, const char* op, Fn&& fn) {
  switch (dtype) {
    case DType::kF32:
      return fn(float{});
    case DType::kF64:
      return fn(double{});
    case DType::kBF16:
      return fn(bf16{});
    default:
      throw ArgumentError(str(op, ": wanted f32, f64 or bf16, got ", name_of(dtype)));
  }
}

/// Calls `fn(T{})` with the element type of any `dtype`.
template <class Fn>
decltype(auto) dispatch_any(DType dtype, Fn&& fn) {
  switch (dtype) {
    case DType::kF32:
      return fn(float{});
    case DType::kF64:
      return fn(double{});
    case DType::kBF16:
      return fn(bf16{});
    case DType::kI64:
      return fn(int64_t{});
    case DType::kI32:
      return fn(int32_t{});
    case DType::kU8:
      return fn(uint8_t{});
    case DType::kF16:
      return fn(f16{});
  }
  throw ArgumentError("dispatch_any: unknown dtype");
}

/// The type in which values of T are added up and computed: float for bf16 and f16, T itself
/// otherwise.
template <class T>
struct ComputeType {
  using type = T;
};
template <>
struct ComputeType<bf16> {
  using type = float;
};
template <>
struct ComputeType<f16> {
  using type = float;
};
template <class T>
using compute_t = typename ComputeType<T>::type;

}  // namespace lockstep
