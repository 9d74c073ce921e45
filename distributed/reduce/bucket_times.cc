#include "lockstep/distributed/reduce/bucket_times.h"

#include <optional>

namespace lockstep {

void BucketTimes::wait(size_t bucket, const WorkPtr& work, int64_t bytes) {
  const auto id = static_cast<int32_t>(bucket);
  {
    const DeviceTimeline::Span span(to_, Activity::kCommWait, id);
    work->wait();
  }
  if (to_.timeline() == nullptr) return;
  const auto transfer = [work, id, bytes]() -> std::optional<Span> {
    if (!work->done()) return std::nullopt;
    const auto [start, finish] = work->times();
    const int64_t sent = work->bytes_sent();
    return Span{Activity::kCommunication, id, start, finish, sent < 0 ? bytes : sent};
  };
  // On a stream the wait returns before the transfer is over. The span above is told before this
  // one, and is over only when the transfer is.
  if (to_.on_device()) return to_.timeline()->defer(transfer);
  if (const std::optional<Span> span = transfer()) to_.timeline()->record(*span);
}

void BucketTimes::waited(int64_t begin_ns) {
  // While the host waits, a device may compute.
  if (to_.timeline() == nullptr || to_.on_device()) return;
  to_.timeline()->record({Activity::kCommWait, -1, begin_ns, Timeline::now_ns(), 0});
}

void BucketTimes::instant(Activity activity, size_t bucket) {
  if (to_.timeline() == nullptr) return;
  const int64_t now = Timeline::now_ns();
  to_.timeline()->record({activity, static_cast<int32_t>(bucket), now, now, 0});
}

}  // namespace lockstep
