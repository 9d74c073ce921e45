// BucketTimes: the life of each bucket, told to the timeline. Its spans carry the bucket's index:
//
//   kBucketReady     an instant: its last gradient is complete
//   kBucketLaunch    an instant: it was handed to the process group
//   kCommunication   its transfer, from start to finish
//   kCommWait        the end of backward waits for it
//
// Without a timeline all of it does nothing.
#pragma once

#include "lockstep/base/timeline.h"
#include "lockstep/distributed/comm/process_group.h"

#include <cstddef>
#include <cstdint>

namespace lockstep {

class BucketTimes {
 public:
  explicit BucketTimes(Timeline* timeline) : timeline_(timeline) {}

  void ready(size_t bucket) { instant(Activity::kBucketReady, bucket); }
  void launched(size_t bucket) { instant(Activity::kBucketLaunch, bucket); }
  /// `work`, which moved the bucket's `bytes` unless it says how many it sent, was waited for since
  /// `begin_ns`.
  void waited(size_t bucket, int64_t begin_ns, const Work& work, int64_t bytes);
  /// For what belongs to no bucket.
  void waited(int64_t begin_ns);

 private:
  void instant(Activity activity, size_t bucket);

  Timeline* timeline_;
};

}  // namespace lockstep
