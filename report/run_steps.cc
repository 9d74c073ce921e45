#include "lockstep/report/run_steps.h"

#include "lockstep/base/chrome_trace.h"
#include "lockstep/base/error.h"
#include "lockstep/train/step_log.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <limits>
#include <optional>
#include <string_view>

namespace lockstep::report {
namespace {

namespace fs = std::filesystem;

/// "steps.rank12.jsonl" -> 12
std::optional<int> rank_of(std::string_view name) {
  constexpr std::string_view kBegin = "steps.rank", kEnd = ".jsonl";
  if (!name.starts_with(kBegin) || !name.ends_with(kEnd)) return std::nullopt;
  name.remove_prefix(kBegin.size());
  name.remove_suffix(kEnd.size());
  int rank = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), rank);
  if (error != std::errc() || end != name.data() + name.size() || rank < 0) return std::nullopt;
  return rank;
}

/// Time goes on after the shift, however the offset drifts, so that no two spans come to overlap.
void align(RankLog& log) {
  const auto shift = [&](int64_t& ns) { ns -= clock_offset_at(log.clocks, ns); };
  for (StepEvents& step : log.events) {
    shift(step.begin_ns);
    shift(step.end_ns);
    for (StepEvents::Event& event : step.events) {
      shift(event.span.begin_ns);
      shift(event.span.end_ns);
    }
  }
}

}  // namespace

RunSteps read_steps(const std::string& directory) {
  std::vector<int> found;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    if (const auto rank = rank_of(entry.path().filename().string())) found.push_back(*rank);
  }
  if (error) throw IoError(str(directory, ": cannot be read: ", error.message()));
  if (found.empty()) {
    throw IoError(str(directory,
                      ": wanted steps.rankN.jsonl, got none; a trainer writes one for "
                      "each rank into its --output-dir"));
  }
  std::sort(found.begin(), found.end());
  RunSteps run;
  for (const int rank : found) {
    RankLog log = read_step_log(step_log_file(directory, rank), rank);
    // What an earlier run with more ranks has left there.
    if (!run.ranks.empty() && rank >= run.world_size) continue;
    if (run.ranks.empty()) run.world_size = std::max(log.world_size, rank + 1);
    align(log);
    run.ranks.push_back(std::move(log));
  }
  for (int rank = 0; rank < run.world_size && std::ssize(run.missing) < 1000; ++rank) {
    if (!std::binary_search(found.begin(), found.end(), rank)) run.missing.push_back(rank);
  }
  return run;
}

const StepEvents* events_of(const RankLog& rank, int64_t step) {
  // The last: a step that was done again after a resume counts as it was done then.
  const auto found = std::find_if(rank.events.rbegin(), rank.events.rend(),
                                  [&](const StepEvents& events) { return events.step == step; });
  return found == rank.events.rend() ? nullptr : &*found;
}

std::vector<int64_t> RunSteps::steps_with_events() const {
  std::vector<int64_t> steps;
  for (const StepEvents& events : ranks[0].events) {
    const bool all = std::all_of(ranks.begin(), ranks.end(), [&](const RankLog& rank) {
      return events_of(rank, events.step) != nullptr;
    });
    if (all) steps.push_back(events.step);
  }
  std::sort(steps.begin(), steps.end());
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  return steps;
}

void write_merged_trace(std::ostream& out, const RunSteps& run) {
  int64_t origin = std::numeric_limits<int64_t>::max();
  std::vector<RankTrace> traces;
  for (const RankLog& rank : run.ranks) {
    traces.push_back({rank.rank, rank.events});
    for (const StepEvents& step : rank.events) origin = std::min(origin, step.begin_ns);
  }
  if (origin == std::numeric_limits<int64_t>::max()) origin = 0;
  write_chrome_trace(out, traces, run.world_size, origin);
}

}  // namespace lockstep::report
