// IEEE 754 binary16, which C++20 lacks: to store and to send. Nothing computes in it.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace lockstep {

/// 1 sign, 5 exponent and 10 mantissa bits: 2^-24 to 65504. Conversion from float rounds to nearest
/// even, to infinity from 65520 on; NaN stays NaN, becomes quiet and keeps the upper bits of its
/// payload, as the processors' own conversion has it.
struct f16 {
  uint16_t bits = 0;

  // Both conversions compute every case and select: without branches the compiler makes vector code
  // of loops over them. constexpr so that device code can call them too.
  f16() = default;
  constexpr explicit f16(float value) {
    constexpr uint32_t kSmallestNormal = 0x38800000u;  // 2^-14 as a float
    const uint32_t u = std::bit_cast<uint32_t>(value);
    const uint32_t magnitude = u & 0x7fffffffu;
    // The units of a float near 0.5 are 2^-24, those of the subnormals: the addition rounds.
    const float below_normal = std::bit_cast<float>(std::min(magnitude, kSmallestNormal)) + 0.5f;
    const uint32_t subnormal = std::bit_cast<uint32_t>(below_normal) - 0x3f000000u;
    // A carry out of the mantissa goes where it must: into the exponent, up to infinity.
    const uint32_t normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    const uint32_t nan = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
    const uint32_t finite = magnitude < kSmallestNormal ? subnormal : normal;
    const uint32_t number = magnitude < 0x47800000u ? finite : 0x7c00u;  // 65536: infinity
    bits = static_cast<uint16_t>((u >> 16 & 0x8000u) | (magnitude > 0x7f800000u ? nan : number));
  }
  constexpr explicit operator float() const {
    const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
    const uint32_t magnitude = static_cast<uint32_t>(bits & 0x7fffu) << 13;
    const uint32_t normal = magnitude + 0x38000000u;
    // 2^-14 + m 2^-24, less 2^-14.
    const float small = std::bit_cast<float>(std::min(magnitude, 0x00800000u) + 0x38800000u) -
                        std::bit_cast<float>(0x38800000u);
    const uint32_t quiet = magnitude > 0x0f800000u ? 0x00400000u : 0u;
    const uint32_t special = (magnitude + 0x70000000u) | quiet;
    const uint32_t finite = magnitude < 0x00800000u ? std::bit_cast<uint32_t>(small) : normal;
    return std::bit_cast<float>(sign | (magnitude >= 0x0f800000u ? special : finite));
  }
};

}  // namespace lockstep
