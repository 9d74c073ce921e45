// What `lockstep diagnose` prints: who waits for whom, found by laying the ranks' ring logs side by
// side.
#pragma once

#include "lockstep/report/ring_log.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::report {

/// A collective in which ranks wait.
struct Wait {
  std::string group;
  int64_t collective = 0;
  std::string call, label;  // as the first of them says it
  int64_t since_us = 0;     // when the first of them came
  std::vector<int> waiting;
  std::vector<int> awaited;  // members that had neither come nor done it; none: all were there
};

/// Two ranks' calls in the same place.
struct Difference {
  std::string group;
  int64_t collective = 0;
  int rank_a = 0, rank_b = 0;
  std::string call_a, call_b;  // with their labels
};

/// In the order of the groups and collectives.
std::vector<Wait> waits_of(const RingLogs& run);
/// The first one of each group that has one.
std::vector<Difference> differences_of(const RingLogs& run);

/// One page of text. Times are UTC, by each rank's own clock.
std::string diagnosis_page(const RingLogs& run);

}  // namespace lockstep::report
