#include "lockstep/train/step_record.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace lockstep {
namespace {

// A damaged file must not decide how much memory is taken.
constexpr int32_t kMostBuckets = 1 << 20;

}  // namespace

const char* name_of(StepPart part) {
  switch (part) {
    case StepPart::kForward:
      return "forward";
    case StepPart::kBackward:
      return "backward";
    case StepPart::kExposed:
      return "exposed communication";
    case StepPart::kPeerWait:
      return "waiting for other ranks";
    case StepPart::kOptimizer:
      return "optimizer";
    case StepPart::kDataWait:
      return "data wait";
    case StepPart::kGraph:
      return "graph";
  }
  return "?";
}

StepRecord record_of(const StepSummary& summary) {
  StepRecord record{.step = summary.step,
                    .wall = summary.wall,
                    .other = summary.other,
                    .hidden = summary.comm_hidden,
                    .bytes = static_cast<double>(summary.comm_bytes)};
  record.parts = {summary.of(Activity::kForward),
                  summary.of(Activity::kBackward),
                  summary.comm_exposed,
                  summary.peer_wait,
                  summary.of(Activity::kOptimizer),
                  summary.of(Activity::kDataWait),
                  summary.of(Activity::kGraph)};
  return record;
}

double unaccounted(const StepRecord& step) {
  if (step.wall <= 0) return 0;
  const double sum = std::accumulate(step.parts.begin(), step.parts.end(), 0.0);
  return std::abs(step.wall - sum) / step.wall;
}

void bucket_records(const StepEvents& step, std::vector<BucketRecord>& out) {
  out.clear();
  int64_t origin = step.begin_ns;
  for (const StepEvents::Event& event : step.events) {
    if (event.span.activity == Activity::kBackward) origin = std::max(origin, event.span.begin_ns);
  }
  const auto ms = [&](int64_t ns) { return static_cast<double>(ns - origin) * 1e-6; };
  for (const StepEvents::Event& event : step.events) {
    const Span& span = event.span;
    if (span.id < 0 || span.id >= kMostBuckets) continue;
    if (static_cast<size_t>(span.id) >= out.size()) out.resize(static_cast<size_t>(span.id) + 1);
    BucketRecord& bucket = out[static_cast<size_t>(span.id)];
    switch (span.activity) {
      case Activity::kBucketReady:
        bucket.ready = ms(span.begin_ns);
        break;
      case Activity::kBucketLaunch:
        bucket.launch = ms(span.begin_ns);
        break;
      case Activity::kCommunication:
        bucket.start = ms(span.begin_ns);
        bucket.finish = ms(span.end_ns);
        bucket.bytes = static_cast<double>(span.bytes);
        break;
      case Activity::kCommWait:
        bucket.wait = static_cast<double>(span.end_ns - span.begin_ns) * 1e-6;
        break;
      default:
        break;
    }
  }
}

double median(std::vector<double>& values) {
  std::erase_if(values, [](double value) { return std::isnan(value); });
  if (values.empty()) return kNever;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

}  // namespace lockstep
