// Conversion of many f16 at once: by the processor's own instruction where the binary is built for
// it (F16C), else by f16's.
#pragma once

#include "lockstep/tensor/f16.h"

#include <cstdint>

#ifdef __F16C__
#include <immintrin.h>
#endif

namespace lockstep {

/// to[i] = from[i]; the arrays do not overlap.
inline void to_floats(const f16* from, float* to, int64_t count) {
  int64_t i = 0;
#ifdef __F16C__
  for (; i + 8 <= count; i += 8) {
    const __m128i eight = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i));
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(eight));
  }
#endif
  for (; i < count; ++i) to[i] = static_cast<float>(from[i]);
}

/// to[i] = from[i], rounded to nearest even; the arrays do not overlap.
inline void from_floats(const float* from, f16* to, int64_t count) {
  int64_t i = 0;
#ifdef __F16C__
  for (; i + 8 <= count; i += 8) {
    const __m128i eight =
        _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i), eight);
  }
#endif
  for (; i < count; ++i) to[i] = f16(from[i]);
}

}  // namespace lockstep
