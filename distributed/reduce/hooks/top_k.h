// The k elements of largest magnitude, by counting: no copy of the elements, and the same choice
// whatever the number of threads.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>

namespace lockstep {

/// Writes the indexes, ascending, of the k largest |x[i]| to out[0 .. k); among equals the lower
/// index wins, and NaN is larger than everything. 0 <= k <= n < 2^31; C is float or double.
template <class C>
void top_k_indexes(const C* x, int64_t n, int64_t k, int32_t* out) {
  if (k <= 0) return;
  // The bits of floats that are not negative order like the floats themselves.
  using Key = std::conditional_t<sizeof(C) == 4, uint32_t, uint64_t>;
  const auto key_of = [](C value) { return std::bit_cast<Key>(std::abs(value)); };
  constexpr int kBits = 11;  // a histogram then stays in the first cache
  constexpr Key kDigit = (Key{1} << kBits) - 1;
  constexpr int kTopShift = (static_cast<int>(sizeof(Key)) * 8 - 1) / kBits * kBits;

  // The k-th largest key, digit by digit from the top; of those that equal it, `left` are taken.
  Key threshold = 0;
  Key known = 0;  // mask of the digits found so far
  int64_t left = k;
  for (int shift = kTopShift; shift >= 0; shift -= kBits) {
    std::array<int32_t, kDigit + 1> count{};
    for (int64_t i = 0; i < n; ++i) {
      const Key key = key_of(x[i]);
      if ((key & known) == threshold) ++count[static_cast<size_t>(key >> shift & kDigit)];
    }
    Key digit = kDigit;
    for (; count[static_cast<size_t>(digit)] < left; --digit) {
      left -= count[static_cast<size_t>(digit)];
    }
    threshold |= digit << shift;
    known |= kDigit << shift;
  }
  for (int64_t i = 0; i < n; ++i) {
    const Key key = key_of(x[i]);
    if (key > threshold || (key == threshold && left-- > 0)) *out++ = static_cast<int32_t>(i);
  }
}

}  // namespace lockstep
