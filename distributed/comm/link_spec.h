// What an emulated link is like, as numbers and as text.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep {

struct LinkSpec {
  double gbit_per_s = 1;  // of each rank, in each direction
  std::chrono::microseconds latency{0};
  /// Each collective takes up to this fraction longer: a number drawn for (seed, which collective),
  /// the same on every rank and in every run.
  double jitter = 0;
  uint64_t seed = 0;
  /// This rank comes straggler_delay late to each collective; -1: none.
  int straggler = -1;
  std::chrono::milliseconds straggler_delay{0};

  bool operator==(const LinkSpec&) const = default;
};

/// From "1gbit,latency=50us,jitter=0.1,seed=7,straggler=1:20ms": a rate (gbit, mbit or kbit), then
/// in any order what differs from the defaults; times in us, ms or s. Throws ArgumentError that
/// names the part that is wrong.
LinkSpec parse_link(std::string_view text);

/// "1 Gbit/s, 50 us", and the rest where there is any.
std::string to_string(const LinkSpec& link);

/// Throws ArgumentError unless the rate is at least 1 kbit/s and nothing is negative.
void check_link(const LinkSpec& link);

}  // namespace lockstep
