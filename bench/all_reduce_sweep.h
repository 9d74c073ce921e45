// How long it takes to sum the same gradients over the ranks, cut into tensors of one size after
// another: section 3.2.2 of Li et al., PVLDB 13(12), 2020 (figure 2).
#pragma once

#include "lockstep/distributed/comm/process_group.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace lockstep::bench {

struct SweepOptions {
  int64_t elements = 60'000'000;  // f32
  std::vector<int64_t> sizes;     // elements of one tensor; at most `elements`
  int repetitions = 3;
};

struct SweepPoint {
  int64_t size = 0;
  int64_t tensors = 0;
  double seconds = 0;      // for all of them: the median, of the slowest rank
  double gb_per_s = 0;     // bytes of gradients / seconds
  double us_per_call = 0;  // seconds / tensors
};

/// 1k, 2k, 5k, ... 20M.
std::vector<int64_t> paper_sizes();

/// The tensors of one size are all issued before the first is waited for. `progress` is called on
/// rank 0 with each size. Collective.
std::vector<SweepPoint> all_reduce_sweep(const SweepOptions& options, ProcessGroup& group,
                                         const std::function<void(int64_t)>& progress = {});

/// Medians of a few repetitions on a machine with other work differ by about that.
inline constexpr int kKneePercent = 10;
/// The smallest size that is within kKneePercent of the fastest: larger tensors gain little.
int64_t knee_of(const std::vector<SweepPoint>& points);

/// A Markdown table.
std::string sweep_table(const std::vector<SweepPoint>& points);

}  // namespace lockstep::bench
