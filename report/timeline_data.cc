#include "lockstep/report/timeline_data.h"

#include "lockstep/base/str.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <limits>

namespace lockstep::report {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostSteps = 12, kMostRanks = 16;

/// `count` of them, evenly spread, the last among them.
std::vector<int64_t> spread(const std::vector<int64_t>& steps, size_t count) {
  std::vector<int64_t> some;
  for (size_t i = 1; i <= std::min(count, steps.size()); ++i) {
    some.push_back(steps[i * steps.size() / std::min(count, steps.size()) - 1]);
  }
  return some;
}

Json spans_of(const StepEvents& step, int64_t origin) {
  Json spans = Json::array();
  for (const auto& [span, thread] : step.events) {
    const auto us = [&](int64_t ns) { return (ns - origin) / 1000; };
    spans.push_back(
        {name_of(span.activity), span.id, us(span.begin_ns), us(span.end_ns), span.bytes, thread});
  }
  return spans;
}

}  // namespace

TimelineData timeline_data(const RunSteps& run, const std::vector<PlannedBucket>& plan,
                           size_t most_spans) {
  const std::vector<int64_t> sampled = run.steps_with_events();
  const size_t ranks = std::min(run.ranks.size(), kMostRanks);
  size_t largest = 1;  // spans of a step on the shown ranks
  for (const int64_t step : sampled) {
    size_t spans = 0;
    for (size_t r = 0; r < ranks; ++r) spans += events_of(run.ranks[r], step)->events.size();
    largest = std::max(largest, spans);
  }
  const auto steps = spread(sampled, std::clamp<size_t>(most_spans / largest, 1, kMostSteps));
  const size_t of_rank = std::max<size_t>(most_spans / std::max<size_t>(ranks, 1), 1);
  TimelineData data;
  if (steps.size() < sampled.size() || ranks < run.ranks.size()) {
    data.note =
        str("The timeline shows ", steps.size(), " of ", sampled.size(), " sampled steps and ",
            ranks, " of ", run.ranks.size(), " ranks; the trace has them all.");
  }
  Json json;
  json["buckets"] = Json::array();
  for (const PlannedBucket& bucket : plan) json["buckets"].push_back({{"mb", bucket.bytes * 1e-6}});
  json["ranks"] = Json::array();
  json["steps"] = steps;
  json["spans"] = Json::object();
  for (size_t r = 0; r < ranks; ++r) json["ranks"].push_back(run.ranks[r].rank);
  for (const int64_t step : steps) {
    int64_t origin = std::numeric_limits<int64_t>::max();
    for (const RankLog& rank : run.ranks) {
      origin = std::min(origin, events_of(rank, step)->begin_ns);
    }
    for (size_t r = 0; r < ranks; ++r) {
      const StepEvents& events = *events_of(run.ranks[r], step);
      Json& at = json["spans"][str(run.ranks[r].rank)][str(step)];
      if (events.events.size() > of_rank) {
        at = Json::array();
        data.note = "The steps have too many spans to be shown here; the trace has them all.";
      } else {
        at = spans_of(events, origin);
      }
    }
  }
  // ASCII, and markup's characters as escapes, which only strings can hold.
  for (const char c : json.dump(-1, ' ', /*ensure_ascii=*/true)) {
    data.json += c == '<' ? "\\u003c" : c == '>' ? "\\u003e" : c == '&' ? "\\u0026" : str(c);
  }
  return data;
}

}  // namespace lockstep::report
