// Independent random streams out of one seed. Each use of randomness in data/ has a purpose of its
// own, so that, say, the shuffle of epoch 3 has nothing to do with the crops of epoch 3.
#pragma once

#include "lockstep/tensor/random.h"

#include <cstdint>

namespace lockstep {

enum class RandomPurpose : uint64_t {
  kShuffle = 1,
  kAugment = 2,
  kPrototypes = 3,
  kNoise = 4,
  kImage = 5,
  kMask = 6,
  kPair = 7
};

/// The seed of stream `number` for `purpose`: Philox of (seed, purpose), and of that and `number`.
constexpr uint64_t stream_seed(uint64_t seed, RandomPurpose purpose, uint64_t number) {
  const auto a = philox4x32(seed, static_cast<uint64_t>(purpose));
  const auto b = philox4x32(uint64_t{a[0]} << 32 | a[1], number);
  return uint64_t{b[0]} << 32 | b[1];
}

}  // namespace lockstep
