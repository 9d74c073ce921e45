// What can be chosen for data-parallel training.
#pragma once

#include "lockstep/distributed/reduce/bucket_plan.h"
#include "lockstep/distributed/reduce/ddp_mode.h"
#include "lockstep/distributed/reduce/grad_bucket.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace lockstep {

class Timeline;

/// The same on every rank.
struct DdpOptions {
  DdpMode mode = DdpMode::kOverlapped;
  double bucket_cap_mb = 25;  // MiB of gradients at which a bucket closes; 0: each gradient alone
  std::optional<double> first_bucket_cap_mb = std::nullopt;  // unset: 1, or less with the rest
  std::optional<double> last_bucket_cap_mb = std::nullopt;   // BucketCaps::last_mb
  std::vector<double> bucket_caps_mb = {};                   // BucketCaps::list_mb
  Planner planner = nullptr;                                 // null: plan_buckets
  /// After the first synchronised backward, buckets are planned anew for the order in which rank 0
  /// completed its gradients.
  bool replan = true;
  /// A step's loss may leave parameters out. Off: a missing gradient is an error on every rank.
  bool find_unused_parameters = false;
  bool static_graph = false;  // it may, but always the same ones
  /// What no rank uses does not travel; wants one of the two. reducer.h tells more of all three.
  bool skip_unused_buckets = false;
  /// Each synchronised backward brings rank 0's buffers to all ranks before the next forward.
  bool broadcast_buffers = true;
  std::function<int()> buffers_from = nullptr;  // not rank 0's but those of this rank (join.h)
  std::vector<std::string> ignore = {};         // parameters and buffers that stay each rank's own
  BucketReduction reduction = nullptr;          // how a bucket is summed; null: all_reduce
  /// Called, within backward, before a bucket travels in which an element of this rank's is not
  /// finite; with two ranks or more, on the CPU. nonfinite.h is one.
  std::function<void(const GradBucket&)> nonfinite = nullptr;
  Timeline* timeline = nullptr;  // where communication is recorded; must outlive the wrapper
};

/// The first bucket's cap: as given, or 1 MiB, or less where the others' is less.
inline double first_cap_mb(const DdpOptions& options) {
  return options.first_bucket_cap_mb.value_or(std::min(1.0, options.bucket_cap_mb));
}

}  // namespace lockstep
