#include "lockstep/tensor/device_clock.h"

#include "lockstep/base/timeline.h"

#include <limits>
#include <utility>

namespace lockstep {
namespace {

// Nanoseconds.
constexpr int64_t kFreshFor = 1'000'000'000;
constexpr int64_t kPatience = 200'000;
constexpr int64_t kEver = std::numeric_limits<int64_t>::max();

}  // namespace

DeviceClock::DeviceClock(Device device)
    : stream_(device_streams(device).create(StreamPriority::kHigh)), anchor_(take(kEver)) {}

std::shared_ptr<const DeviceClock::Anchor> DeviceClock::take(int64_t patience) const {
  auto best = std::make_shared<Anchor>();
  int64_t shortest = std::numeric_limits<int64_t>::max();
  // The shortest of a few attempts was disturbed least.
  for (int attempt = 0; attempt < 5; ++attempt) {
    const int64_t before = Timeline::now_ns();
    EventPtr event = stream_->record_timed();
    while (!event->done()) {
      if (Timeline::now_ns() - before > patience) return nullptr;
    }
    const int64_t took = Timeline::now_ns() - before;
    if (took >= shortest) continue;
    shortest = took;
    *best = {before + took / 2, std::move(event)};
  }
  return best;
}

std::shared_ptr<const DeviceClock::Anchor> DeviceClock::anchor() const {
  const std::lock_guard lock(mutex_);
  return anchor_;
}

void DeviceClock::refresh() {
  if (Timeline::now_ns() - anchor()->steady_ns < kFreshFor) return;
  auto next = take(kPatience);
  if (next == nullptr) return;
  const std::lock_guard lock(mutex_);
  anchor_ = std::move(next);
}

}  // namespace lockstep
