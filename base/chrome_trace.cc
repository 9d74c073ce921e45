#include "lockstep/base/chrome_trace.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ostream>
#include <set>
#include <string>
#include <vector>

namespace lockstep {
namespace {

constexpr int kFirstCommLane = 1000;

struct Slice {
  Span span;
  int64_t step;
  int lane;
};

bool is_instant(Activity activity) {
  return activity == Activity::kBucketReady || activity == Activity::kBucketLaunch;
}

/// Puts each transfer into the first lane that is free when it starts; `slices` are sorted by
/// start.
int assign_comm_lanes(std::vector<Slice>& slices) {
  std::vector<int64_t> busy_until;
  for (Slice& slice : slices) {
    if (slice.span.activity != Activity::kCommunication) continue;
    const auto free = std::find_if(busy_until.begin(), busy_until.end(),
                                   [&](int64_t end) { return end <= slice.span.begin_ns; });
    slice.lane = kFirstCommLane + static_cast<int>(free - busy_until.begin());
    if (free == busy_until.end()) {
      busy_until.push_back(slice.span.end_ns);
    } else {
      *free = slice.span.end_ns;
    }
  }
  return static_cast<int>(busy_until.size());
}

class Writer {
 public:
  Writer(std::ostream& out, int64_t origin_ns) : out_(out), origin_ns_(origin_ns) {}

  void set_rank(int rank) { rank_ = rank; }

  void name(const char* what, int lane, const std::string& name) {
    begin() << R"({"ph":"M","name":")" << what << R"(","pid":)" << rank_ << R"(,"tid":)" << lane
            << R"(,"args":{"name":")" << name << R"("}})";
  }

  void slice(const char* name, const char* category, int lane, int64_t begin_ns, int64_t end_ns) {
    begin() << R"({"ph":"X","name":")" << name << R"(","cat":")" << category << R"(","pid":)"
            << rank_ << R"(,"tid":)" << lane << R"(,"ts":)" << microseconds(begin_ns - origin_ns_)
            << R"(,"dur":)" << microseconds(end_ns - begin_ns);
  }

  /// A mark on the lane of the thread that set it.
  void instant(const char* name, int lane, int64_t at_ns) {
    begin() << R"({"ph":"i","s":"t","name":")" << name << R"(","cat":"bucket","pid":)" << rank_
            << R"(,"tid":)" << lane << R"(,"ts":)" << microseconds(at_ns - origin_ns_);
  }

 private:
  /// Exact, whatever the size.
  static std::string microseconds(int64_t ns) {
    char text[40];
    std::snprintf(text, sizeof text, "%s%lld.%03d", ns < 0 ? "-" : "",
                  static_cast<long long>(std::abs(ns / 1000)),
                  static_cast<int>(std::abs(ns % 1000)));
    return text;
  }

  std::ostream& begin() {
    out_ << (first_ ? "\n" : ",\n");
    first_ = false;
    return out_;
  }

  std::ostream& out_;
  int64_t origin_ns_;
  int rank_ = 0;
  bool first_ = true;
};

void write_rank(Writer& writer, std::ostream& out, const RankTrace& trace) {
  std::vector<Slice> slices;
  std::set<int> threads;
  for (const StepEvents& step : trace.steps) {
    for (const StepEvents::Event& event : step.events) {
      slices.push_back({event.span, step.step, event.thread});
      if (event.span.activity != Activity::kCommunication) threads.insert(event.thread);
    }
  }
  std::stable_sort(slices.begin(), slices.end(), [](const Slice& a, const Slice& b) {
    return a.span.begin_ns < b.span.begin_ns;
  });
  const int comm_lanes = assign_comm_lanes(slices);
  writer.set_rank(trace.rank);
  writer.name("process_name", 0, "rank " + std::to_string(trace.rank));
  for (const int thread : threads) {
    writer.name("thread_name", thread, "compute " + std::to_string(thread));
  }
  for (int lane = 0; lane < comm_lanes; ++lane) {
    writer.name("thread_name", kFirstCommLane + lane, "communication " + std::to_string(lane));
  }
  for (const Slice& slice : slices) {
    const Span& span = slice.span;
    if (is_instant(span.activity)) {
      writer.instant(name_of(span.activity), slice.lane, span.begin_ns);
      out << R"(,"args":{"step":)" << slice.step << R"(,"bucket":)" << span.id << "}}";
      continue;
    }
    const bool comm = span.activity == Activity::kCommunication;
    writer.slice(name_of(span.activity), comm ? "communication" : "compute", slice.lane,
                 span.begin_ns, std::max(span.begin_ns, span.end_ns));
    out << R"(,"args":{"step":)" << slice.step;
    if (span.id >= 0) out << R"(,"bucket":)" << span.id;
    if (span.bytes > 0) out << R"(,"bytes":)" << span.bytes;
    out << "}}";
  }
}

}  // namespace

void write_chrome_trace(std::ostream& out, std::span<const RankTrace> ranks, int world_size,
                        int64_t origin_ns) {
  out << R"({"displayTimeUnit":"ms","distributedInfo":{)";
  if (ranks.size() == 1) out << R"("rank":)" << ranks[0].rank << ",";
  out << R"("world_size":)" << world_size << R"(},"traceEvents":[)";
  Writer writer(out, origin_ns);
  for (const RankTrace& rank : ranks) write_rank(writer, out, rank);
  out << "\n]}\n";
}

}  // namespace lockstep
