#include "lockstep/tensor/random.h"

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <vector>

namespace lockstep {
namespace {

using Counter = std::array<uint32_t, 4>;
using Key = std::array<uint32_t, 2>;

/// Philox4x32-10 as section 3.3 of the paper writes it, on any counter, with 64-bit words
/// throughout.
Counter reference(const Counter& counter, const Key& key) {
  std::array<uint64_t, 4> x = {counter[0], counter[1], counter[2], counter[3]};
  std::array<uint64_t, 2> k = {key[0], key[1]};
  constexpr uint64_t kLow = 0xffffffff;
  for (int round = 0; round < 10; ++round) {
    const uint64_t first = x[0] * 0xD2511F53;
    const uint64_t second = x[2] * 0xCD9E8D57;
    x = {(second >> 32) ^ x[1] ^ k[0], second & kLow, (first >> 32) ^ x[3] ^ k[1], first & kLow};
    k = {(k[0] + 0x9E3779B9) & kLow, (k[1] + 0xBB67AE85) & kLow};
  }
  return {static_cast<uint32_t>(x[0]), static_cast<uint32_t>(x[1]), static_cast<uint32_t>(x[2]),
          static_cast<uint32_t>(x[3])};
}

TEST_CASE("philox: known answers of Random123 (its tests/kat_vectors, philox4x32 10)") {
  CHECK(philox4x32(0, 0) == Counter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  // The others set all four words of the counter, of which a stream uses two: they vouch for the
  // reference.
  CHECK(reference({0, 0, 0, 0}, {0, 0}) == Counter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  constexpr uint32_t kOnes = 0xffffffff;
  CHECK(reference({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}) ==
        Counter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(reference({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        Counter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("philox: equals the reference for any seed and block") {
  const std::vector<uint64_t> values = {
      0, 1, 0xffffffff, 0x100000000, 0x123456789abcdef0, 0xffffffffffffffff};
  for (uint64_t seed : values) {
    for (uint64_t block : values) {
      CHECK(philox4x32(seed, block) ==
            reference({static_cast<uint32_t>(block), static_cast<uint32_t>(block >> 32), 0, 0},
                      {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)}));
    }
  }
}

TEST_CASE("generator: pieces of the stream do not overlap, and its state brings it back") {
  Generator rng(42);
  CHECK(rng.take(5).first_block == 0);  // two blocks of four
  CHECK(rng.take(0).first_block == 2);
  CHECK(rng.take(4).first_block == 2);
  const Generator::State saved = rng.state();
  CHECK(saved == Generator::State{42, 3});
  const PhiloxRange range = rng.take(1000);
  rng.take(17);
  rng.set_state(saved);
  const PhiloxRange again = rng.take(1000);
  Generator other(0);
  other.set_state(saved);
  const PhiloxRange elsewhere = other.take(1000);
  for (int64_t i = 0; i < 1000; ++i) {
    CHECK(range.bits(i) ==
          philox4x32(42, 3 + static_cast<uint64_t>(i) / 4)[static_cast<size_t>(i) % 4]);
    CHECK(again.bits(i) == range.bits(i));
    CHECK(elsewhere.bits(i) == range.bits(i));
    CHECK(range.uniform(i) >= 0.0f);
    CHECK(range.uniform(i) < 1.0f);
  }
}

}  // namespace
}  // namespace lockstep
