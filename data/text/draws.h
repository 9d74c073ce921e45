// Random numbers one after the other out of a piece of a Philox stream.
#pragma once

#include "lockstep/data/random_streams.h"
#include "lockstep/tensor/random.h"

#include <cstdint>

namespace lockstep {

class Draws {
 public:
  explicit Draws(uint64_t seed) : range_{seed, 0} {}
  /// Those of example `index` in epoch `epoch`, for one purpose.
  Draws(uint64_t seed, RandomPurpose purpose, int64_t epoch, int64_t index)
      : Draws(stream_seed(stream_seed(seed, purpose, static_cast<uint64_t>(epoch)), purpose,
                          static_cast<uint64_t>(index))) {}

  /// Uniform in [0, 1).
  float uniform() { return range_.uniform(next_++); }
  /// Uniform in [0, count), up to count / 2^64.
  int64_t below(int64_t count) {
    const uint64_t high = range_.bits(next_++);
    const uint64_t random = high << 32 | range_.bits(next_++);
    return static_cast<int64_t>(
        static_cast<unsigned __int128>(random) * static_cast<uint64_t>(count) >> 64);
  }

 private:
  PhiloxRange range_;
  int64_t next_ = 0;
};

}  // namespace lockstep
