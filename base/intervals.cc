#include "lockstep/base/intervals.h"

#include <algorithm>
#include <cstddef>

namespace lockstep {

void normalize(IntervalSet& set) {
  std::erase_if(set, [](const Interval& i) { return i.end <= i.begin; });
  std::sort(set.begin(), set.end(),
            [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  size_t last = 0;
  for (size_t i = 1; i < set.size(); ++i) {
    if (set[i].begin <= set[last].end) {
      set[last].end = std::max(set[last].end, set[i].end);
    } else {
      set[++last] = set[i];
    }
  }
  if (!set.empty()) set.resize(last + 1);
}

int64_t total_length(const IntervalSet& set) {
  int64_t sum = 0;
  for (const Interval& interval : set) sum += interval.end - interval.begin;
  return sum;
}

void subtract(const IntervalSet& a, const IntervalSet& b, IntervalSet& out) {
  out.clear();
  size_t first = 0;  // of b: those before it end too early to matter from here on
  for (const Interval& interval : a) {
    int64_t begin = interval.begin;
    while (first < b.size() && b[first].end <= begin) ++first;
    for (size_t i = first; i < b.size() && b[i].begin < interval.end; ++i) {
      if (b[i].begin > begin) out.push_back({begin, b[i].begin});
      begin = b[i].end;
    }
    if (begin < interval.end) out.push_back({begin, interval.end});
  }
}

}  // namespace lockstep
