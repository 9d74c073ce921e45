// What the log of operations calls the sum of a bucket: "bucket 3: layer1.0.conv1.weight ...
// layer1.1.bn2.bias, 12 parameters".
#pragma once

#include "lockstep/distributed/comm/op_label.h"
#include "lockstep/distributed/reduce/grad_bucket.h"

namespace lockstep {

inline OpText bucket_label(const GradBucket& bucket) {
  OpText text("bucket ");
  text.append(bucket.index).append(": ");
  if (!bucket.params.empty()) text.append(bucket.params.front().name);
  if (bucket.params.size() > 1) {
    text.append(bucket.params.size() > 2 ? " ... " : ", ").append(bucket.params.back().name);
    text.append(", ").append(static_cast<int64_t>(bucket.params.size())).append(" parameters");
  }
  return text;
}

/// Starts the sum under its label. A reduction that issues operations in another thread sets the
/// label there too.
inline WorkPtr start_labelled(const BucketReduction& reduction, const GradBucket& bucket) {
  const OpLabel label(bucket_label(bucket));
  return reduction(bucket);
}

}  // namespace lockstep
