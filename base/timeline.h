// Timeline: the one event recorder. Whoever works (trainer, reducer, communication thread) records
// what it did and from when to when; at the end of a step this is folded into a StepSummary, from
// which the progress line, the metrics and the report are computed. Full events are kept for the
// last few steps only.
//
// Threads: record() may be called from any thread and takes no lock and allocates nothing, save for
// the first call of a thread. All other functions belong to one thread at a time, the one that
// drives the steps. Spans that another thread records belong to the step that is folded after them,
// so communication has to be waited for before end_step().
//
// A null Timeline* stands for "off" wherever one is accepted.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace lockstep {

enum class Activity : uint8_t {
  kDataWait,  // the loop waits for the loader
  kForward,
  kBackward,
  kOptimizer,
  kGraph,          // a step that was captured: forward, backward and optimizer in one
  kCommunication,  // a transfer, from its start to its finish, on whatever thread
  kCommWait,       // the computing thread waits for communication; may lie inside kBackward
  kBucketReady,    // an instant: the last gradient of a bucket is complete
  kBucketLaunch,   // an instant: the bucket was handed to the process group
  kOther,
};
inline constexpr size_t kActivityCount = 10;

/// "forward", "data wait", ...
const char* name_of(Activity activity);

struct Span {
  Activity activity = Activity::kOther;
  int32_t id = -1;  // index of the bucket, or -1
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  int64_t bytes = 0;
};

/// Milliseconds of one step. Waiting for communication is not computing: the part of a backward
/// span under a kCommWait span counts as kCommWait only.
struct StepSummary {
  int64_t step = 0;
  double wall = 0;                          // begin_step to end_step
  std::array<double, kActivityCount> ms{};  // union of each activity's spans
  double comm_total = 0;                    // union of the transfers = hidden + exposed
  double comm_hidden = 0;                   // the part of it during which this rank computed
  double comm_exposed = 0;  // the rest: union of transfers minus union of computation
  double peer_wait = 0;     // waiting for communication while none ran: for other ranks
  double other = 0;         // under no span of this rank's work and waits
  int64_t comm_bytes = 0;
  int64_t dropped = 0;  // spans lost because a ring was full

  double of(Activity activity) const { return ms[static_cast<size_t>(activity)]; }
};

struct TimelineOptions {
  size_t ring_capacity = 8192;  // spans that one thread can record in one step
  size_t keep_last = 3;         // steps whose events are kept, at least 1
};

/// All spans of one step. `thread` counts the recording threads from 0 in the order of their first
/// span.
struct StepEvents {
  struct Event {
    Span span;
    int thread = 0;
  };
  int64_t step = 0;
  int64_t begin_ns = 0;
  int64_t end_ns = 0;
  std::vector<Event> events;
};

class Timeline {
 public:
  explicit Timeline(TimelineOptions options = {});
  ~Timeline();
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  void record(const Span& span);
  /// For what goes on after the call that began it, as on a device: end_step() calls `later`, which
  /// waits for it; nullopt: there is nothing to record after all. An error of `later` is dropped.
  void defer(std::function<std::optional<Span>()> later);

  /// std::chrono::steady_clock in nanoseconds.
  static int64_t now_ns();

  void begin_step(int64_t step);
  StepSummary end_step();

  /// The step that ended last; empty before the first has. Valid until the next ends.
  const StepEvents& last_step() const;
  /// The last few, in their order.
  std::vector<StepEvents> kept() const;

 private:
  struct Ring;
  Ring& ring_of_this_thread();
  void drain();

  TimelineOptions options_;
  uint64_t id_;  // never reused, so that a thread's memory of its ring cannot go stale
  struct Rings;
  std::unique_ptr<Rings> rings_;
  std::vector<std::function<std::optional<Span>()>> deferred_;
  StepEvents current_;
  std::vector<StepEvents> last_;  // used as a ring, so that a warm step reuses its memory
  size_t next_last_ = 0;
  int64_t dropped_ = 0;
};

/// Records from construction to destruction.
class [[nodiscard]] ScopedSpan {
 public:
  ScopedSpan(Timeline* timeline, Activity activity, int32_t id = -1)
      : timeline_(timeline),
        activity_(activity),
        id_(id),
        begin_ns_(timeline ? Timeline::now_ns() : 0) {}
  ~ScopedSpan() {
    if (timeline_) timeline_->record({activity_, id_, begin_ns_, Timeline::now_ns(), 0});
  }
  ScopedSpan(const ScopedSpan&) = delete;
  ScopedSpan& operator=(const ScopedSpan&) = delete;

 private:
  Timeline* timeline_;
  Activity activity_;
  int32_t id_;
  int64_t begin_ns_;
};

/// The summary of one step's events. Exposed for tests and for tools that read traces.
StepSummary summarize(const StepEvents& step);

}  // namespace lockstep
