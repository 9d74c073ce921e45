#include "lockstep/distributed/reduce/bucket_times.h"

namespace lockstep {

void BucketTimes::waited(size_t bucket, int64_t begin_ns, const Work& work, int64_t bytes) {
  if (timeline_ == nullptr) return;
  const auto id = static_cast<int32_t>(bucket);
  timeline_->record({Activity::kCommWait, id, begin_ns, Timeline::now_ns(), 0});
  // On a stream the wait returns before the transfer is over, and its times are not known yet.
  if (!work.done()) return;
  const auto [start, finish] = work.times();
  const int64_t sent = work.bytes_sent();
  timeline_->record({Activity::kCommunication, id, start, finish, sent < 0 ? bytes : sent});
}

void BucketTimes::waited(int64_t begin_ns) {
  if (timeline_ == nullptr) return;
  timeline_->record({Activity::kCommWait, -1, begin_ns, Timeline::now_ns(), 0});
}

void BucketTimes::instant(Activity activity, size_t bucket) {
  if (timeline_ == nullptr) return;
  const int64_t now = Timeline::now_ns();
  timeline_->record({activity, static_cast<int32_t>(bucket), now, now, 0});
}

}  // namespace lockstep
