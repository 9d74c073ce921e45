#include "lockstep/tensor/cuda/cudnn/choose_plan.h"

#include "lockstep/base/str.h"

#include <algorithm>
#include <limits>

namespace lockstep::cuda {
namespace {

constexpr int kRounds = 3;
constexpr double kClearly = 0.98;

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

}  // namespace

std::optional<size_t> fastest_candidate(size_t count, const TimeCandidate& time) {
  if (count == 1) return 0;
  std::vector<int64_t> least(count, kNever);
  std::vector<bool> runs(count);
  for (size_t i = 0; i < count; ++i) runs[i] = time(i).has_value();
  for (int round = 0; round < kRounds; ++round) {
    for (size_t i = 0; i < count; ++i) {
      if (!runs[i]) continue;
      const auto took = time(i);
      runs[i] = took.has_value();
      least[i] = took ? std::min(least[i], *took) : kNever;
    }
  }
  size_t best = 0;
  for (size_t i = 1; i < count; ++i) {
    if (static_cast<double>(least[i]) < kClearly * static_cast<double>(least[best])) best = i;
  }
  return count > 0 && least[best] < kNever ? std::optional(best) : std::nullopt;
}

std::string problem_name(const char* kind, std::span<const int64_t> key) {
  std::string name = kind;
  for (const int64_t number : key) name += str(" ", number);
  return name;
}

}  // namespace lockstep::cuda
