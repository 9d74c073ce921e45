#include "lockstep/report/breakdown.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace lockstep::report {
namespace {

double quantile(std::vector<double>& values, double q) {
  if (values.empty()) return 0;
  const auto rank = static_cast<size_t>(std::ceil(q * static_cast<double>(values.size())));
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(std::max<size_t>(rank, 1) - 1);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

/// A record of which each number is `of` that number of all steps.
template <class Of>
StepRecord each(std::span<const StepRecord> steps, const Of& of) {
  std::vector<double> values;
  const auto all = [&](const auto& get) {
    values.clear();
    for (const StepRecord& step : steps) {
      if (!std::isnan(get(step))) values.push_back(get(step));
    }
    return values.empty() ? 0.0 : of(values);
  };
  StepRecord result;
  for (size_t i = 0; i < kStepParts; ++i) {
    result.parts[i] = all([&](const StepRecord& step) { return step.parts[i]; });
  }
  result.wall = all([](const StepRecord& step) { return step.wall; });
  result.other = all([](const StepRecord& step) { return step.other; });
  result.hidden = all([](const StepRecord& step) { return step.hidden; });
  result.bytes = all([](const StepRecord& step) { return step.bytes; });
  return result;
}

double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

/// Of a bucket on one rank, nanoseconds; -1: it did not happen.
struct Life {
  int64_t launch = -1, start = -1, finish = -1;
};
std::vector<Life> lives_of(const StepEvents& step) {
  std::vector<Life> lives;
  for (const auto& [span, thread] : step.events) {
    const bool launch = span.activity == Activity::kBucketLaunch;
    if (span.id < 0 || span.id > 1'000'000) continue;
    if (!launch && span.activity != Activity::kCommunication) continue;
    if (static_cast<size_t>(span.id) >= lives.size()) lives.resize(size_t(span.id) + 1);
    Life& life = lives[static_cast<size_t>(span.id)];
    if (launch) {
      life.launch = span.begin_ns;
    } else {
      life.start = span.begin_ns;
      life.finish = span.end_ns;
    }
  }
  return lives;
}

/// For each step that all ranks have the events of: each rank's buckets, those that all have.
std::vector<std::vector<std::vector<Life>>> lives_of(const RunSteps& run) {
  std::vector<std::vector<std::vector<Life>>> steps;
  for (const int64_t step : run.steps_with_events()) {
    std::vector<std::vector<Life>> ranks;
    size_t buckets = SIZE_MAX;
    for (const RankLog& rank : run.ranks) {
      ranks.push_back(lives_of(*events_of(rank, step)));
      buckets = std::min(buckets, ranks.back().size());
    }
    for (auto& rank : ranks) rank.resize(buckets);
    steps.push_back(std::move(ranks));
  }
  return steps;
}

}  // namespace

Breakdown breakdown_of(std::span<const StepRecord> steps) {
  Breakdown result;
  if (steps.size() > 1) steps = steps.subspan(1);
  result.steps = steps.size();
  std::vector<StepRecord> sorted(steps.begin(), steps.end());
  std::sort(sorted.begin(), sorted.end(),
            [](const StepRecord& a, const StepRecord& b) { return a.wall < b.wall; });
  const size_t quarter = sorted.size() / 4;
  const std::span<const StepRecord> all(sorted);
  result.typical = each(all.subspan(quarter, sorted.size() - 2 * quarter), mean);
  result.median = each(steps, [](std::vector<double>& values) { return median(values); });
  result.p90 = each(steps, [](std::vector<double>& values) { return quantile(values, 0.9); });
  result.missed_steps =
      static_cast<size_t>(std::count_if(sorted.begin(), sorted.end(), [](const StepRecord& step) {
        return unaccounted(step) > kMostUnaccounted;
      }));
  result.missed = unaccounted(result.typical);
  return result;
}

double ring_bytes(double bytes, int world_size) {
  return bytes * 2 * (world_size - 1) / std::max(world_size, 1);
}

std::vector<BucketSummary> buckets_of(const RunSteps& run) {
  size_t count = 0;
  for (const RankLog& rank : run.ranks) {
    if (!rank.buckets.empty()) count = rank.buckets.back().buckets.size();
  }
  std::vector<BucketSummary> all(count);
  std::vector<double> values;
  for (size_t b = 0; b < count; ++b) {
    // Over the ranks, of the medians over a rank's intervals.
    const auto typical = [&](const auto& get) {
      std::vector<double> of_ranks;
      for (const RankLog& rank : run.ranks) {
        values.clear();
        for (const BucketLine& line : rank.buckets) {
          if (line.buckets.size() == count) values.push_back(get(line.buckets[b]));
        }
        of_ranks.push_back(median(values));
      }
      return median(of_ranks);
    };
    BucketSummary& bucket = all[b];
    for (const auto member : {&BucketRecord::ready, &BucketRecord::launch, &BucketRecord::start,
                              &BucketRecord::finish, &BucketRecord::wait, &BucketRecord::bytes}) {
      bucket.times.*member = typical([&](const BucketRecord& record) { return record.*member; });
    }
    bucket.transfer = typical([](const BucketRecord& r) { return r.finish - r.start; });
    if (bucket.transfer > 0 && run.world_size > 1) {
      bucket.bandwidth = ring_bytes(bucket.times.bytes, run.world_size) / bucket.transfer * 1e3;
    }
  }
  return all;
}

int critical_bucket(std::span<const BucketSummary> buckets, double wall) {
  int longest = -1;
  double wait = 0.01 * wall;
  for (size_t b = 0; b < buckets.size(); ++b) {
    if (!(buckets[b].times.wait > wait)) continue;
    wait = buckets[b].times.wait;
    longest = static_cast<int>(b);
  }
  return longest;
}

std::vector<RankSummary> ranks_of(const RunSteps& run) {
  std::vector<std::vector<double>> late(run.ranks.size());
  for (const auto& ranks : lives_of(run)) {
    for (size_t b = 0; b < ranks[0].size(); ++b) {
      int64_t first = INT64_MAX;
      for (const auto& buckets : ranks) first = std::min(first, buckets[b].launch);
      if (first < 0) continue;  // it was not launched everywhere
      for (size_t r = 0; r < ranks.size(); ++r) {
        late[r].push_back(static_cast<double>(ranks[r][b].launch - first) * 1e-6);
      }
    }
  }
  std::vector<RankSummary> all;
  for (size_t r = 0; r < run.ranks.size(); ++r) {
    const RankLog& log = run.ranks[r];
    all.push_back({.rank = log.rank,
                   .host = log.host,
                   .breakdown = breakdown_of(log.steps),
                   .late = run.ranks.size() > 1 ? median(late[r]) : kNever,
                   .clock = log.clocks.empty() ? ClockOffset{} : log.clocks.front()});
  }
  return all;
}

double start_delay(const RunSteps& run) {
  if (!run.missing.empty() || run.ranks.size() < 2) return kNever;
  std::vector<double> delays;
  for (const auto& ranks : lives_of(run)) {
    int64_t before = 0;
    for (size_t b = 0; b < ranks[0].size(); ++b) {
      int64_t possible = before;
      bool known = true;
      for (const auto& buckets : ranks) {
        known = known && buckets[b].launch >= 0 && buckets[b].start >= 0;
        possible = std::max(possible, buckets[b].launch);
      }
      if (known) delays.push_back(static_cast<double>(ranks[0][b].start - possible) * 1e-6);
      for (const auto& buckets : ranks) before = std::max(before, buckets[b].finish);
    }
  }
  return median(delays);
}

}  // namespace lockstep::report
