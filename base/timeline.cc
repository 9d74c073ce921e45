#include "lockstep/base/timeline.h"

#include "lockstep/base/intervals.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <utility>

namespace lockstep {
namespace {

uint64_t next_id() {
  static std::atomic<uint64_t> next{1};
  return next.fetch_add(1, std::memory_order_relaxed);
}

/// A thread's number, unlike std::thread::id never that of a thread that has ended: a ring has one
/// writer for good.
uint64_t this_thread_number() {
  thread_local const uint64_t number = next_id();
  return number;
}

double to_ms(int64_t ns) { return static_cast<double>(ns) * 1e-6; }

}  // namespace

/// One writer (its thread), one reader (the thread that ends steps).
struct Timeline::Ring {
  explicit Ring(size_t capacity) : slots(capacity) {}

  std::vector<Span> slots;
  alignas(64) std::atomic<uint64_t> written{0};
  alignas(64) std::atomic<uint64_t> read{0};
  std::atomic<int64_t> dropped{0};
  uint64_t owner = 0;
};

struct Timeline::Rings {
  std::mutex mutex;
  std::vector<std::unique_ptr<Ring>> list;
};

Timeline::Timeline(TimelineOptions options)
    : options_(options),
      id_(next_id()),
      rings_(std::make_unique<Rings>()),
      last_(std::max<size_t>(options.keep_last, 1)) {
  options_.ring_capacity = std::max<size_t>(options_.ring_capacity, 1);
  current_.events.reserve(256);
}

Timeline::~Timeline() = default;

int64_t Timeline::now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Timeline::Ring& Timeline::ring_of_this_thread() {
  // A few timelines can be live in one thread (ranks as threads, tests); one entry is the usual
  // case.
  struct Entry {
    uint64_t timeline = 0;
    Ring* ring = nullptr;
  };
  constexpr size_t kEntries = 4;
  thread_local std::array<Entry, kEntries> cache{};
  thread_local size_t victim = 0;
  for (const Entry& entry : cache) {
    if (entry.timeline == id_) return *entry.ring;
  }
  std::lock_guard lock(rings_->mutex);
  auto found = std::find_if(rings_->list.begin(), rings_->list.end(),
                            [](const auto& ring) { return ring->owner == this_thread_number(); });
  if (found == rings_->list.end()) {
    rings_->list.push_back(std::make_unique<Ring>(options_.ring_capacity));
    rings_->list.back()->owner = this_thread_number();
    found = rings_->list.end() - 1;
  }
  cache[victim++ % kEntries] = {id_, found->get()};
  return **found;
}

void Timeline::record(const Span& span) {
  Ring& ring = ring_of_this_thread();
  const uint64_t at = ring.written.load(std::memory_order_relaxed);
  if (at - ring.read.load(std::memory_order_acquire) >= ring.slots.size()) {
    ring.dropped.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  ring.slots[at % ring.slots.size()] = span;
  ring.written.store(at + 1, std::memory_order_release);
}

void Timeline::defer(std::function<std::optional<Span>()> later) {
  deferred_.push_back(std::move(later));
}

void Timeline::drain() {
  std::lock_guard lock(rings_->mutex);
  for (size_t thread = 0; thread < rings_->list.size(); ++thread) {
    Ring& ring = *rings_->list[thread];
    const uint64_t end = ring.written.load(std::memory_order_acquire);
    uint64_t at = ring.read.load(std::memory_order_relaxed);
    for (; at != end; ++at) {
      current_.events.push_back({ring.slots[at % ring.slots.size()], static_cast<int>(thread)});
    }
    ring.read.store(end, std::memory_order_release);
    dropped_ += ring.dropped.exchange(0, std::memory_order_relaxed);
  }
}

void Timeline::begin_step(int64_t step) {
  deferred_.clear();  // of a step that was not ended
  current_.events.clear();
  current_.step = step;
  current_.begin_ns = now_ns();
  dropped_ = 0;
}

StepSummary Timeline::end_step() {
  for (const auto& later : deferred_) {
    try {
      if (const std::optional<Span> span = later()) record(*span);
    } catch (const std::exception&) {
      // The one who waits for the work itself is told.
    }
  }
  deferred_.clear();
  current_.end_ns = now_ns();
  drain();
  StepSummary summary = summarize(current_);
  summary.dropped = dropped_;
  std::swap(last_[next_last_++ % last_.size()], current_);
  return summary;
}

const StepEvents& Timeline::last_step() const {
  return last_[(next_last_ + last_.size() - 1) % last_.size()];
}

std::vector<StepEvents> Timeline::kept() const {
  std::vector<StepEvents> all;
  for (const StepEvents& step : last_) {
    if (step.end_ns != 0) all.push_back(step);
  }
  std::sort(all.begin(), all.end(),
            [](const auto& a, const auto& b) { return a.begin_ns < b.begin_ns; });
  return all;
}

StepSummary summarize(const StepEvents& step) {
  // Reused by each thread, so that a warm step allocates nothing.
  thread_local std::array<IntervalSet, kActivityCount> sets;
  thread_local IntervalSet compute, busy, rest, covered;
  const auto set_of = [&](Activity a) -> IntervalSet& { return sets[static_cast<size_t>(a)]; };

  StepSummary summary;
  summary.step = step.step;
  summary.wall = to_ms(step.end_ns - step.begin_ns);
  for (IntervalSet& set : sets) set.clear();
  for (const StepEvents::Event& event : step.events) {
    const Span& span = event.span;
    set_of(span.activity).push_back({span.begin_ns, span.end_ns});
    if (span.activity == Activity::kCommunication) summary.comm_bytes += span.bytes;
  }
  for (IntervalSet& set : sets) normalize(set);

  covered.clear();
  for (const Activity activity : {Activity::kDataWait, Activity::kForward, Activity::kBackward,
                                  Activity::kOptimizer, Activity::kGraph, Activity::kCommWait}) {
    for (const Interval& span : set_of(activity)) {
      covered.push_back({std::max(span.begin, step.begin_ns), std::min(span.end, step.end_ns)});
    }
  }
  normalize(covered);
  summary.other = summary.wall - to_ms(total_length(covered));

  compute.clear();
  const IntervalSet& wait = set_of(Activity::kCommWait);
  for (const Activity activity :
       {Activity::kForward, Activity::kBackward, Activity::kOptimizer, Activity::kGraph}) {
    IntervalSet& set = set_of(activity);
    subtract(set, wait, busy);
    std::swap(set, busy);
    compute.insert(compute.end(), set.begin(), set.end());
  }
  normalize(compute);
  // A device may compute while the host waits for data.
  IntervalSet& data_wait = set_of(Activity::kDataWait);
  subtract(data_wait, compute, busy);
  std::swap(data_wait, busy);
  for (size_t i = 0; i < kActivityCount; ++i) summary.ms[i] = to_ms(total_length(sets[i]));

  subtract(set_of(Activity::kCommunication), compute, rest);
  summary.comm_total = summary.of(Activity::kCommunication);
  summary.comm_exposed = to_ms(total_length(rest));
  summary.comm_hidden = summary.comm_total - summary.comm_exposed;
  subtract(wait, set_of(Activity::kCommunication), rest);
  summary.peer_wait = to_ms(total_length(rest));
  return summary;
}

const char* name_of(Activity activity) {
  switch (activity) {
    case Activity::kDataWait:
      return "data wait";
    case Activity::kForward:
      return "forward";
    case Activity::kBackward:
      return "backward";
    case Activity::kOptimizer:
      return "optimizer";
    case Activity::kGraph:
      return "graph";
    case Activity::kCommunication:
      return "communication";
    case Activity::kCommWait:
      return "communication wait";
    case Activity::kBucketReady:
      return "bucket ready";
    case Activity::kBucketLaunch:
      return "bucket launch";
    case Activity::kOther:
      return "other";
  }
  return "?";
}

}  // namespace lockstep
