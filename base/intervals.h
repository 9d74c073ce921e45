// Sets of time intervals: unions and differences, as pure functions. The timeline answers "how much
// of the communication ran beside computation" with them.
#pragma once

#include <cstdint>
#include <vector>

namespace lockstep {

/// [begin, end); empty when end <= begin.
struct Interval {
  int64_t begin = 0;
  int64_t end = 0;

  bool operator==(const Interval&) const = default;
};

/// "Normal" means: sorted, disjoint, no two touching, none empty.
using IntervalSet = std::vector<Interval>;

/// Makes any list normal, in place: the union of what it holds.
void normalize(IntervalSet& set);

/// The summed length of a normal set.
int64_t total_length(const IntervalSet& set);

/// out = a without b. All normal; `out` is a third object, overwritten (its memory is reused).
void subtract(const IntervalSet& a, const IntervalSet& b, IntervalSet& out);

}  // namespace lockstep
