// Which of the suggested plans for a problem is taken. Knows neither cuDNN nor a GPU: tests put in
// plans and times of their own.
#pragma once

#include "lockstep/tensor/plan_book.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lockstep::cuda {

/// How many suggestions are timed. cuDNN's heuristic is rarely wrong by more places, and each costs
/// the building of a plan and some runs.
inline constexpr size_t kMostTimed = 5;
/// A plan that wants more scratch memory, in bytes, is not timed unless it is cuDNN's first: memory
/// that the model wants must not depend on a race.
inline constexpr int64_t kMostTimedWorkspace = int64_t{1} << 30;

/// Runs a candidate once; its nanoseconds, or nothing where it cannot run.
using TimeCandidate = std::function<std::optional<int64_t>(size_t candidate)>;

/// The fastest of `count` candidates by the least time of a few runs; each runs once before that,
/// so that what a first run loads is not measured. Candidates take turns, so that a GPU that slows
/// down while it warms up slows all of them down. One that is later must be faster by 2 % than an
/// earlier one: smaller differences are noise, and the earlier is the heuristic's choice. One alone
/// is not run. Nothing when none can run.
std::optional<size_t> fastest_candidate(size_t count, const TimeCandidate& time);

/// "convolution 256 56 56 64 ...": a problem as a PlanBook knows it, by its key (problem_cache.h).
std::string problem_name(const char* kind, std::span<const int64_t> key);

/// What is to be suggested: up to `most` plans, best first; with a `name` only the one called so.
struct PlanWanted {
  size_t most = 1;
  std::string name = {};
};

/// The plan for `problem`: the one that `book` knows, or else the fastest, which it then knows, or
/// without `time` the first suggestion. Null where nothing is suggested.
///
/// A plan has name() and workspace_bytes(); suggest(PlanWanted) gives a vector of pointers to them;
/// `time` runs one (std::optional<int64_t>(const Plan&)).
template <class Plan, class Suggest>
std::unique_ptr<Plan> choose_plan(const std::string& problem, PlanBook& book,
                                  const Suggest& suggest,
                                  const std::function<std::optional<int64_t>(const Plan&)>& time) {
  if (const auto known = book.find(problem)) {
    auto plans = suggest(PlanWanted{.most = 1, .name = *known});
    if (!plans.empty()) return std::move(plans.front());
    // Another release of the same version, or an edited file: as if it were not known.
  }
  auto plans = suggest(PlanWanted{.most = time ? kMostTimed : 1});
  if (plans.empty()) return nullptr;
  if (!time) return std::move(plans.front());
  const Plan* const first = plans.front().get();
  std::erase_if(plans, [&](const std::unique_ptr<Plan>& plan) {
    return plan.get() != first && plan->workspace_bytes() > kMostTimedWorkspace;
  });
  const auto best =
      fastest_candidate(plans.size(), [&](size_t candidate) { return time(*plans[candidate]); });
  // Its own run will say why.
  if (!best) return std::move(plans.front());
  book.note(problem, plans[*best]->name());
  return std::move(plans[*best]);
}

}  // namespace lockstep::cuda
