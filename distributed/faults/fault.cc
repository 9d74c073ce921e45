#include "lockstep/distributed/faults/fault.h"

#include "lockstep/base/error.h"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace lockstep {
namespace {

/// Which keys a fault takes.
enum Keys { kNone, kRank, kRankAndStep, kRankStepAndTime };

struct Known {
  const char* name;
  FaultKind kind;
  Keys keys;
  int64_t step;  // by default
  const char* what;
};

constexpr Known kKnown[] = {
    {"arrival-order", FaultKind::kArrivalOrder, kRank, 0,
     "a rank launches its buckets in the order in which they fill up there"},
    {"corrupt", FaultKind::kCorrupt, kRankAndStep, 5, "one bit of a reduced gradient is flipped"},
    {"die", FaultKind::kDie, kRankAndStep, 5, "a rank is killed in backward"},
    {"different-order", FaultKind::kDifferentOrder, kRank, 0,
     "a rank registers its parameters in another order"},
    {"forget-wait", FaultKind::kForgetWait, kNone, 0,
     "the optimizer steps before the sums have arrived"},
    {"half-reduced-tied", FaultKind::kHalfReducedTied, kNone, 0,
     "a parameter is used twice, and its bucket travels after the first contribution"},
    {"nan", FaultKind::kNan, kRankAndStep, 5, "one element of a gradient is NaN"},
    {"no-scale", FaultKind::kNoScale, kNone, 0,
     "gradients are the sum over the ranks, not the mean"},
    {"no-sync", FaultKind::kNoSync, kNone, 0, "a NoSync guard is never let go"},
    {"same-data", FaultKind::kSameData, kNone, 0, "every rank reads rank 0's samples"},
    {"scale-twice", FaultKind::kScaleTwice, kNone, 0,
     "gradients are divided by the number of ranks twice"},
    {"seed", FaultKind::kSeed, kRank, 0,
     "a rank starts from weights of its own, which nobody has sent it"},
    {"skip", FaultKind::kSkip, kRankAndStep, 5, "a rank leaves out the reduction of a step"},
    {"slow", FaultKind::kSlow, kRankStepAndTime, 0, "a rank's backward takes longer"},
};

const Known& known(FaultKind kind) {
  return *std::find_if(std::begin(kKnown), std::end(kKnown),
                       [=](const Known& one) { return one.kind == kind; });
}

int64_t number(std::string_view text, int64_t least, int64_t most, const std::string& whole) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  check(error == std::errc() && end == text.data() + text.size() && value >= least && value <= most,
        "fault '", whole, "': wanted a number from ", least, " to ", most, ", got '", text, "'");
  return value;
}

void set(Fault& fault, Keys keys, std::string_view part, const std::string& whole) {
  const size_t equals = std::min(part.find('='), part.size());
  const std::string_view key = part.substr(0, equals);
  const std::string_view value = part.substr(std::min(equals + 1, part.size()));
  if (key == "rank" && keys >= kRank) {
    fault.rank = static_cast<int>(number(value, 0, 1023, whole));
  } else if (key == "step" && keys >= kRankAndStep) {
    fault.step = number(value, 1, 1'000'000'000'000, whole);
  } else if (key == "ms" && keys >= kRankStepAndTime) {
    fault.delay = std::chrono::milliseconds(number(value, 0, 3'600'000, whole));
  } else {
    static constexpr const char* kTakes[] = {"nothing", "rank=R", "rank=R,step=S",
                                             "rank=R,step=S,ms=T"};
    throw ArgumentError(
        str("fault '", whole, "': wanted ", kTakes[keys], " after the colon, got '", part, "'"));
  }
}

}  // namespace

Fault parse_fault(const std::string& text) {
  const size_t colon = std::min(text.find(':'), text.size());
  const std::string name = text.substr(0, colon);
  const auto entry = std::find_if(std::begin(kKnown), std::end(kKnown),
                                  [&](const Known& one) { return name == one.name; });
  check(entry != std::end(kKnown), "fault: wanted one of ", fault_names(), "; got '", name, "'");
  Fault fault{.kind = entry->kind, .rank = entry->keys == kNone ? -1 : 1, .step = entry->step};
  for (size_t begin = colon; begin < text.size();) {
    const size_t end = std::min(text.find(',', begin + 1), text.size());
    set(fault, entry->keys, std::string_view(text).substr(begin + 1, end - begin - 1), text);
    begin = end;
  }
  return fault;
}

std::string describe(const Fault& fault) {
  const Known& entry = known(fault.kind);
  std::string text = str(entry.what, " (");
  if (fault.rank < 0) {
    text += "every rank";
  } else {
    text += str("rank ", fault.rank);
  }
  if (fault.step > 0) text += str(", step ", fault.step);
  if (entry.keys == kRankStepAndTime) text += str(", ", fault.delay.count(), " ms");
  return text + ")";
}

std::string fault_names() {
  std::string names;
  for (const Known& entry : kKnown) names += str(names.empty() ? "" : ", ", entry.name);
  return names;
}

void check_fault(const Fault& fault, int world) {
  check(world >= 2, "fault: ", known(fault.kind).name, " wants at least 2 ranks, got ", world);
  check(fault.rank < world, "fault: ", known(fault.kind).name, " is of rank ", fault.rank,
        ", but the ranks are 0 to ", world - 1);
}

bool has_fault(const std::vector<Fault>& faults, FaultKind kind, int rank) {
  return std::any_of(faults.begin(), faults.end(),
                     [&](const Fault& f) { return f.kind == kind && f.on_rank(rank); });
}

}  // namespace lockstep
