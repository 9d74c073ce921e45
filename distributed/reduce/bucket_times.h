// BucketTimes: the life of each bucket, told to the timeline. Its spans carry the bucket's index:
//
//   kBucketReady     an instant: its last gradient is complete
//   kBucketLaunch    an instant: it was handed to the process group
//   kCommunication   its transfer, from start to finish
//   kCommWait        the end of backward waits for it
//
// Without a timeline all of it does nothing.
#pragma once

#include "lockstep/distributed/comm/process_group.h"
#include "lockstep/tensor/device_timeline.h"

#include <cstddef>
#include <cstdint>

namespace lockstep {

class BucketTimes {
 public:
  BucketTimes(Timeline* timeline, Device device) : to_(timeline, device) {}

  void ready(size_t bucket) { instant(Activity::kBucketReady, bucket); }
  void launched(size_t bucket) { instant(Activity::kBucketLaunch, bucket); }
  /// Waits for `work`, which moves the bucket's `bytes` unless it says how many it sent.
  void wait(size_t bucket, const WorkPtr& work, int64_t bytes);
  /// For what belongs to no bucket, since `begin_ns`.
  void waited(int64_t begin_ns);

 private:
  void instant(Activity activity, size_t bucket);

  DeviceTimeline to_;
};

}  // namespace lockstep
