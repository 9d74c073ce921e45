#include "lockstep/tensor/dtype.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace lockstep {
namespace {

float from_bits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

TEST_CASE("bf16: every value survives the way to float and back") {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    bf16 value;
    value.bits = static_cast<uint16_t>(bits);
    const float wide = static_cast<float>(value);
    if (std::isnan(wide)) {
      CHECK(std::isnan(static_cast<float>(bf16(wide))));
    } else if (bf16(wide).bits != bits) {
      FAIL("0x", bits, " became 0x", bf16(wide).bits);
    }
  }
}

TEST_CASE("bf16: rounds to nearest, ties to even") {
  CHECK(bf16(from_bits(0x3f800000)).bits == 0x3f80);
  CHECK(bf16(from_bits(0x3f807fff)).bits == 0x3f80);  // below half
  CHECK(bf16(from_bits(0x3f808000)).bits == 0x3f80);  // half, to the even one below
  CHECK(bf16(from_bits(0x3f808001)).bits == 0x3f81);  // above half
  CHECK(bf16(from_bits(0x3f818000)).bits == 0x3f82);  // half, to the even one above
  CHECK(bf16(from_bits(0xbf818000)).bits == 0xbf82);
  CHECK(bf16(from_bits(0x3fffffff)).bits == 0x4000);  // carries into the exponent
  CHECK(bf16(from_bits(0x00008000)).bits == 0x0000);  // subnormal, half
  CHECK(bf16(from_bits(0x0000c000)).bits == 0x0001);
  CHECK(std::isinf(static_cast<float>(bf16(std::numeric_limits<float>::max()))));
  CHECK(static_cast<float>(bf16(-std::numeric_limits<float>::infinity())) ==
        -std::numeric_limits<float>::infinity());
  CHECK(std::isnan(
      static_cast<float>(bf16(from_bits(0x7f800001)))));  // whose upper half alone is infinity
  CHECK(std::isnan(static_cast<float>(bf16(from_bits(0xffffffff)))));
}

TEST_CASE("dispatch: the type that the dtype names; integers have no gradient") {
  for (DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kI64, DType::kI32, DType::kU8,
                      DType::kF16}) {
    dispatch_any(dtype, [&](auto zero) {
      CHECK(dtype_of<decltype(zero)> == dtype);
      CHECK(sizeof zero == size_of(dtype));
    });
  }
  CHECK_THROWS_WITH_AS(dispatch_floating(DType::kI32, "op", [](auto) {}),
                       "op: wanted f32, f64 or bf16, got i32", ArgumentError);
  CHECK_THROWS_WITH_AS(dispatch_floating(DType::kF16, "op", [](auto) {}),
                       "op: wanted f32, f64 or bf16, got f16", ArgumentError);
}

}  // namespace
}  // namespace lockstep
